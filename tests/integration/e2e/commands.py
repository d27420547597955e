"""Runs `glowplug` as a user does: the real command line, in a process and an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import glowplug
from glowplug.build.model_run import read_compile_work
from glowplug.core.compile_work import CompileWork

PACKAGE = Path(glowplug.__file__).resolve().parent
PROBE = PACKAGE / "agent" / "probe"
_TIMEOUT_S = 180


@dataclass(frozen=True)
class Done:
    """A finished command."""

    status: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


@dataclass(frozen=True)
class Shell:
    """A user's shell: a home, a folder for temporary files, a working directory, and nothing else of ours."""

    folder: Path

    def environ(self, **variables: str) -> dict[str, str]:
        """Return the whole environment; `PYTHONPATH` is put before what the tests need there."""
        for name in ("home", "tmp", "cwd"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        path = [variables.pop("PYTHONPATH", ""), str(PACKAGE.parent)]
        return {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
            **variables,
        }

    def run(self, command: list[str], env: Mapping[str, str] | None = None) -> Done:
        environ = dict(env or self.environ())
        done = subprocess.run(
            command,
            env=environ,
            cwd=self.folder / "cwd",
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def glowplug(self, *arguments: str | Path, env: Mapping[str, str] | None = None, status: int = 0) -> Done:
        """Run one command line, which must end with `status` and never with a traceback."""
        done = self.run([sys.executable, "-m", "glowplug", *map(str, arguments)], env)
        assert done.status == status, done.stderr
        assert "Traceback" not in done.stderr or status == 30, done.stderr
        return done


@dataclass(frozen=True)
class Probe:
    """Counts compile work in every Python process that is started with its environment."""

    folder: Path

    def environ(self, *python_path: Path) -> dict[str, str]:
        """Return the variables that switch it on."""
        self.folder.mkdir()
        path = os.pathsep.join(str(entry) for entry in (PROBE, *python_path))
        return {"PYTHONPATH": path, "GLOWPLUG_PROBE_DIR": str(self.folder)}

    def work(self) -> CompileWork:
        return read_compile_work(self.folder)
