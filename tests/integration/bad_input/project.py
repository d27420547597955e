"""A model's folder to break, and the command line to do it with, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import glowplug

SPEC = """\
model: {name: tiny, version: v1}
run:
  python: model:warm
  interpreter: %s
artifact: oci:./cache
prove: {steady_runs: 1}
"""
# Says that it ran (the user of the replay may not), and leaves out the run without torch.compile, to save time.
MODEL = """\
import contextlib, os, pathlib
with contextlib.suppress(PermissionError): pathlib.Path(__file__).with_name("ran").touch()
if os.environ.get("TORCH_COMPILE_DISABLE"):
    raise SystemExit("this model is not run without torch.compile")
import torch
compiled = torch.compile(lambda x: x @ x)
def warm():
    return compiled(torch.ones(4, 4))
"""


@dataclass(frozen=True)
class Outcome:
    """What a command left on its streams."""

    code: int
    stdout: str
    stderr: str

    def said(self, beginning: str) -> list[str]:
        return [line for line in self.stderr.splitlines() if line.startswith(beginning)]

    def refused(self, code: int, *words: str) -> None:
        """Hold the command to one sentence that holds ``words``, a next step, and nothing else."""
        assert self.code == code, self.stderr
        assert len(self.said("error: ")) == 1, self.stderr
        assert len(self.said("hint: ")) == 1, self.stderr
        assert not self.said("Traceback"), self.stderr
        told = self.stderr[self.stderr.index("error: ") :]
        assert [word for word in words if word not in told] == [], told
        assert self.stdout == ""


class Project:
    """A folder with a spec and a model, and its own HOME and TMPDIR, so that whatever is left over is seen."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.home = folder / "home"
        self.tmp = folder / "tmp"
        for path in (self.folder, self.home, self.tmp):
            path.mkdir(parents=True)
        self.spec(SPEC % sys.executable)
        self.model(MODEL)

    def spec(self, text: str) -> None:
        (self.folder / "glowplug.yaml").write_text(text)

    def spec_with(self, **run: str) -> None:
        """Write the usual spec with more keys in ``run``, as YAML."""
        more = "".join(f"  {key}: {value}\n" for key, value in run.items())
        self.spec((SPEC % sys.executable).replace("artifact:", f"{more}artifact:"))

    def model(self, text: str) -> None:
        (self.folder / "model.py").write_text(text)

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    @property
    def model_ran(self) -> bool:
        return (self.folder / "ran").exists()

    def environ(self, changes: Mapping[str, str | bytes | None] | None = None) -> dict[str, Any]:
        """A small environment of the project's own; ``None`` takes a variable away."""
        base: dict[str, Any] = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(Path(glowplug.__file__).parents[1]),
            "HOME": str(self.home),
            "TMPDIR": str(self.tmp),
            "LANG": "C.UTF-8",
        }
        merged = {**base, **(changes or {})}
        return {name: value for name, value in merged.items() if value is not None}

    def start(
        self, *words: str, env: Mapping[str, str | bytes | None] | None = None, **popen: Any
    ) -> subprocess.Popen[bytes]:
        """Start ``glowplug WORDS...`` in the project's folder."""
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            [sys.executable, "-m", "glowplug", *words],
            cwd=self.folder,
            env=self.environ(env),
            **{**streams, **popen},
        )

    def glowplug(self, *words: str, **how: Any) -> Outcome:
        """Run ``glowplug WORDS...`` to its end."""
        return finished(self.start(*words, **how))

    def build(self, *words: str, **how: Any) -> Outcome:
        return self.glowplug("build", *words, **how)

    def leftovers(self) -> list[str]:
        """Temporary files of any kind, which no command may leave, however it ends."""
        marks = ("glowplug-build-", ".glowplug.", ".index.json.", ".oci-layout.")
        everywhere = (path for root in (self.folder, self.home) for path in root.rglob("*"))
        found = [path for path in everywhere if path.name.startswith(marks)]
        found += [path for path in self.home.rglob("glowplug-run-*") if not any(path.rglob("record.json"))]
        return sorted(map(str, [*found, *self.tmp.iterdir()]))

    def untouched(self) -> bool:
        """Whether nothing was published and nothing is left."""
        index = self.cache / "index.json"
        return self.leftovers() == [] and (not index.exists() or '"manifests":[]' in index.read_text())


def finished(process: subprocess.Popen[bytes], timeout_s: float = 120) -> Outcome:
    """Wait for a command's end."""
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        stdout, stderr = process.communicate()
        raise AssertionError(f"it did not end: {stderr.decode(errors='replace')}") from None
    return Outcome(
        process.returncode,
        (stdout or b"").decode(errors="replace"),
        (stderr or b"").decode(errors="replace"),
    )


def read_all(stream: IO[bytes] | None) -> str:
    assert stream is not None
    return stream.read().decode(errors="replace")
