"""Which engine a spec's model runs on, and what that says of the target."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from glowplug.build.spec_file import LoadedSpec
from glowplug.core.contract import scrub
from glowplug.engine.local import LocalEngine
from glowplug.errors import EngineError

_ROOT_ONLY_DATA = {"HF_HOME": ".cache/huggingface", "TORCH_HOME": ".cache/torch"}


def local_engine(loaded: LoadedSpec, environ: Mapping[str, str]) -> LocalEngine:
    """Return this machine with the model's interpreter and the environment that the model inherits, without secrets.

    Raises:
        EngineError: there is no interpreter.
    """
    kept, _ = scrub(environ, loaded.spec.run.secrets)
    for name, below_home in _ROOT_ONLY_DATA.items():
        # Another HOME must not mean that weights are downloaded again.
        data = Path(kept.get("HOME", "/nonexistent")) / below_home
        if name not in kept and data.is_dir():
            kept[name] = str(data)
    folder = (loaded.folder / loaded.spec.run.workload.dir).resolve()
    return LocalEngine(find_interpreter(loaded, environ), folder, kept)


def find_interpreter(loaded: LoadedSpec, environ: Mapping[str, str]) -> Path:
    """Return the model's Python: the spec's, else the one that ``python`` or ``python3`` means.

    Raises:
        EngineError: there is none.
    """
    named = loaded.spec.run.interpreter
    path = environ.get("PATH", os.defpath)
    if named is not None:
        # A bare name is looked up like a command; anything with a slash is relative to the spec.
        found = shutil.which(str(loaded.folder / named) if "/" in named else named, path=path)
        if found is None:
            raise EngineError(f"run.interpreter: there is no executable {named}", hint="correct the spec")
        return Path(found).absolute()  # PATH may hold relative folders, and the model runs elsewhere
    for name in ("python", "python3"):
        found = shutil.which(name, path=path)
        if found:
            return Path(found).absolute()
    raise EngineError("no python on PATH to run the model with", hint="name it in run.interpreter")
