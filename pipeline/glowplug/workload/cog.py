"""Cog predictors: what ``cog.yaml`` says about running one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from glowplug.core.document import Document, Problems, Section, describe
from glowplug.core.spec import CogConfig
from glowplug.errors import SpecError
from glowplug.workload.yaml_file import read_yaml

_REF = re.compile(r"[^:]+\.py:[^\W\d]\w*")
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)", re.DOTALL)


def read_cog(folder: Path) -> CogConfig:
    """Read ``cog.yaml`` in ``folder``; what does not concern running a prediction is left to Cog.

    Raises:
        SpecError: there is none, or it names no predictor.
        ToolMissingError: PyYAML is not installed.
    """
    path = folder / "cog.yaml"
    if not path.is_file():
        raise SpecError(f"{folder} holds no cog.yaml", hint="run.cog is the folder of cog.yaml")
    document = read_yaml(path)
    problems = Problems(document)
    config = _parse(document, problems)
    problems.raise_if_any()
    return config


def _parse(document: Document, problems: Problems) -> CogConfig:
    if not isinstance(document.values, Mapping):
        problems.add("", f"must be a mapping of keys to values, but is {describe(document.values)}")
        return CogConfig("")
    root = Section(problems, "", document.values)
    if "run" in root and "predict" in root:
        problems.add("predict", "is the old name of run; keep one")
    elif "run" not in root and "predict" not in root:
        problems.add("", "names no predictor; write run: predict.py:Predictor")
    key = "run" if "run" in root else "predict"
    ref = root.text(key)
    if ref is not None and not _REF.fullmatch(ref):
        root.add(key, f"must look like predict.py:Predictor, but is {describe(ref)}")
    return CogConfig(ref or "", _environment(root, problems))


def _environment(root: Section, problems: Problems) -> dict[str, str]:
    environment = {}
    for number, item in enumerate(root.items("environment") or ()):
        match = _ASSIGNMENT.fullmatch(item) if isinstance(item, str) else None
        if match is None:
            problems.add(f"environment[{number}]", f"must look like NAME=value, but is {describe(item)}")
        else:
            environment[match["name"]] = match["value"]
    return environment
