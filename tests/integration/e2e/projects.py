"""Small models to build caches for. Each counts how often it was imported, which tells whether it ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_COUNT_IMPORTS = """
import pathlib

with (pathlib.Path(__file__).resolve().parent / "imports").open("a") as imports:
    imports.write("x")
"""

# Inductor makes C++ kernels of it, so a compiler runs.
NETWORK = f"""{_COUNT_IMPORTS}
import torch
from torch._dynamo import mark_dynamic

torch.manual_seed(0)
layers = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)).eval()
compiled = torch.compile(layers)


def question(batch):
    x = torch.linspace(-1, 1, batch * 16).reshape(batch, 16)
    mark_dynamic(x, 0)
    return x


def answer(batch):
    with torch.no_grad():
        return compiled(question(batch))
"""

# One call of a library: quickly compiled, without a compiler.
SQUARE = f"""{_COUNT_IMPORTS}
import torch

compiled = torch.compile(lambda x: x @ x)


def answer(n):
    return compiled(torch.arange(float(n * n)).reshape(n, n))
"""

CUBE = SQUARE.replace("x @ x", "x @ x @ x")


@dataclass(frozen=True)
class Project:
    """A folder with a model and its `glowplug.yaml`."""

    folder: Path

    @property
    def spec(self) -> Path:
        return self.folder / "glowplug.yaml"

    @property
    def imports(self) -> int:
        """How often the model was imported."""
        return (self.folder / "imports").stat().st_size


def write_project(folder: Path, code: str, /, **changes: Any) -> Project:
    """Write a model and a spec for it; `changes` replace whole sections of the spec."""
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(code)
    (folder / "imports").touch()
    (folder / "imports").chmod(0o666)  # the replay runs as another user
    write_spec(folder, changes)
    return Project(folder)


def write_spec(folder: Path, changes: Mapping[str, Any]) -> None:
    spec = {
        "model": {"name": "tiny", "version": "v1"},
        "run": {"python": "model:answer", "inputs": [{"n": 4}]},
        "artifact": "oci:./cache",
        "prove": {"steady_runs": 1},
        **changes,
    }
    (folder / "glowplug.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
