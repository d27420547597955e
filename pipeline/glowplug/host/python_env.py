"""What the model's interpreter would import, read from its files: importing torch would take seconds."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, NamedTuple

from glowplug.errors import EngineError
from glowplug.host import interpreter as probe

PROBE_TIMEOUT_S = 30.0
_TORCH = "torch"
# One import name, several distributions: ROCm wheels and nightlies bring Triton under names of their own.
_TRITON = "(?:pytorch[-_])?triton(?:[-_]rocm)?"


class PythonEnv(NamedTuple):
    """The model's interpreter.

    Attributes:
        python: ``3.11``.
        libc, os, machine: ``glibc-2.36``, ``linux``, ``x86_64``.
        torch: ``torch.__version__``, ``2.13.0+cpu``; empty when torch is not installed.
        cuda, hip: ``torch.version.cuda`` and ``.hip``: what torch was built with, empty for neither.
        triton: its version, empty when it is not installed.
        paths: where that interpreter looks for modules.
    """

    python: str
    libc: str
    os: str
    machine: str
    torch: str
    cuda: str
    hip: str
    triton: str
    paths: tuple[str, ...]

    @property
    def accelerator(self) -> str:
        """The CUDA or ROCm version that torch was built with, empty for a CPU build."""
        return self.cuda or self.hip


def read_python_env(interpreter: Path | None = None) -> PythonEnv:
    """Read what ``interpreter`` (this one when ``None``) would import; nothing of it is imported.

    Raises:
        EngineError: there is no such interpreter, or it does not work.
    """
    found: dict[str, Any]
    found = probe.describe() if interpreter is None or _is_running(interpreter) else _ask(interpreter)
    paths = tuple(str(path) for path in found["paths"])
    torch, cuda, hip = _read_torch(paths)
    return PythonEnv(
        python=str(found["python"]),
        libc=str(found["libc"]),
        os=str(found["os"]),
        machine=str(found["machine"]),
        torch=torch,
        cuda=cuda,
        hip=hip,
        triton=_read_triton(paths),
        paths=paths,
    )


def _is_running(interpreter: Path) -> bool:
    # A virtual environment's interpreter is a link to another one: resolving it would lose the environment.
    return os.path.abspath(interpreter) == os.path.abspath(sys.executable)  # noqa: PTH100


def _ask(interpreter: Path) -> dict[str, Any]:
    source = inspect.getsource(probe)  # a file's, or a member's of glowplug.pyz
    try:
        done = subprocess.run(
            [str(interpreter), "-c", source],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EngineError(
            f"{interpreter} gave no answer within {PROBE_TIMEOUT_S:.0f} s",
            hint="see whether a site hook or sitecustomize.py blocks it at start",
        ) from None
    except OSError as error:
        raise EngineError(
            f"cannot run {interpreter}: {error.strerror or error}",
            hint="name the interpreter that runs the model, such as .venv/bin/python",
        ) from None
    if done.returncode != 0:
        raise EngineError(
            f"{interpreter} does not work: {_last_line(done.stderr)}", hint=f"try: {interpreter} -c 0"
        )
    try:
        answer = json.loads(_last_line(done.stdout))
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or not {"python", "libc", "os", "machine", "paths"} <= answer.keys():
        raise EngineError(
            f"{interpreter} is no Python interpreter", hint="name the interpreter that runs the model"
        )
    return answer


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it says nothing"


def _read_torch(paths: Sequence[str]) -> tuple[str, str, str]:
    """Return torch's version and the CUDA and HIP versions it was built with."""
    package = _package_folder(_TORCH, paths)
    if package is None:
        return "", "", ""
    said = _assigned_texts(package / "version.py")
    version = said.get("__version__") or _distribution_version(_TORCH, package.parent)
    return version, said.get("cuda", ""), said.get("hip", "")


def _read_triton(paths: Sequence[str]) -> str:
    package = _package_folder("triton", paths)
    if package is None:
        return ""
    # The distribution first: only its version tells a build from git (3.5.0+git0add6826) from a release.
    return _distribution_version(_TRITON, package.parent) or _assigned_texts(package / "__init__.py").get(
        "__version__", ""
    )


def _package_folder(name: str, paths: Sequence[str]) -> Path | None:
    spec = PathFinder.find_spec(name, list(paths))
    # A folder without __init__.py is a namespace, as an uninstalled package may leave behind.
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else None


def _distribution_version(name_pattern: str, folder: Path) -> str:
    """Read a version off the folder ``NAME-VERSION.dist-info``; importlib.metadata would take far longer."""
    pattern = re.compile(rf"{name_pattern}-([^-]+)(?:-.*)?\.(?:dist|egg)-info", re.IGNORECASE)
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError:
        return ""
    return next((match[1] for name in names if (match := pattern.fullmatch(name))), "")


def _assigned_texts(module: Path) -> dict[str, str]:
    """Return the texts that a module assigns to names at its top level, without running it."""
    try:
        tree = ast.parse(module.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return {}
    texts: dict[str, str] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            targets: list[ast.expr] = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        else:
            continue
        value = statement.value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            texts.update((target.id, value.value) for target in targets if isinstance(target, ast.Name))
    return texts
