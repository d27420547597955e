"""Cog images: what ``cog build`` writes into an image's labels, read without running anything.

``run.cog.config`` is ``cog.yaml`` as JSON, ``run.cog.openapi_schema`` the predictor's inputs as OpenAPI, and
``run.cog.pip_freeze`` the installed packages. Old images have ``org.cogmodel.*`` instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from glowplug.core.oci import decode, encode
from glowplug.errors import SpecError
from glowplug.workload.cog_inputs import CogInput, read_inputs

_PREFIXES = ("run.cog.", "org.cogmodel.")
_REF = re.compile(r"[^:\s]+\.py:[^\W\d]\w*")

_HINT = "write run.cog, run.python or run.command; or build the image with a current Cog"
_PINNED = re.compile(r"(?P<name>[A-Za-z0-9._-]+)\s*={2,3}\s*(?P<version>[^\s;#]+)")


@dataclass(frozen=True)
class CogImage:
    """What the labels of a Cog image say.

    Attributes:
        ref: the predictor, ``predict.py:Predictor``.
        inputs: in the order of the predictor's parameters; ``None`` when the labels do not say.
        packages: versions by normalized name (PEP 503); empty when the labels do not say.
        python, cuda: what ``cog.yaml`` asks for, ``""`` when it leaves it to Cog.
    """

    ref: str
    inputs: tuple[CogInput, ...] | None
    packages: Mapping[str, str]
    python: str = ""
    cuda: str = ""

    @property
    def torch(self) -> str:
        """The installed torch with its local part, ``2.5.1+cu124``; ``""`` when the labels do not say."""
        return self.packages.get("torch", "")


def read_cog_labels(labels: Mapping[str, str]) -> CogImage | None:
    """Read an image's labels; ``None`` when Cog did not build it.

    Raises:
        SpecError: Cog's labels are there, but cannot be read or name no predictor.
    """
    config = _json(labels, "config")
    if config is None:
        return None
    # `cog build` writes `predict` even where cog.yaml says `run`.
    ref = config.get("predict") or config.get("run")
    if not isinstance(ref, str) or not _REF.fullmatch(ref):
        raise SpecError(f"the image's label {_name(labels, 'config')} names no predictor", hint=_HINT)
    schema = _json(labels, "openapi_schema")
    build = config.get("build")
    asked = build if isinstance(build, Mapping) else {}
    return CogImage(
        ref=ref,
        inputs=None if schema is None else read_inputs(schema),
        packages=read_packages(labels.get(_name(labels, "pip_freeze"), "")),
        python=str(asked.get("python_version") or ""),
        cuda=str(asked.get("cuda") or ""),
    )


def read_packages(freeze: str) -> dict[str, str]:
    """Read versions from the output of ``pip freeze``, by normalized name (PEP 503).

    A wheel that was installed from a URL has its version in its file name; what came from a folder or from git has none.
    """
    versions = (_pinned(line) or _from_wheel(line) for line in map(str.strip, freeze.splitlines()))
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in filter(None, versions)}


def _pinned(line: str) -> tuple[str, str] | None:
    match = _PINNED.match(line)
    return (match["name"], match["version"]) if match else None


def _from_wheel(line: str) -> tuple[str, str] | None:
    """Read ``torch @ https://.../torch-2.5.1%2Bcu124-cp311-cp311-linux_x86_64.whl#sha256=...``."""
    name, at, url = line.partition(" @ ")
    file = unquote(url.partition("#")[0].rpartition("/")[2])
    parts = file.removesuffix(".whl").split("-")
    # name, version, perhaps a build number, Python, ABI, platform (PyPA, "Binary distribution format")
    return (name, parts[1]) if at and file.endswith(".whl") and len(parts) in (5, 6) else None


def _name(labels: Mapping[str, str], key: str) -> str:
    """Return the label for a key, the current one if there is none."""
    return next((prefix + key for prefix in _PREFIXES if labels.get(prefix + key)), _PREFIXES[0] + key)


def _json(labels: Mapping[str, str], key: str) -> dict[str, Any] | None:
    """Read a label that holds a JSON object; ``None`` when there is none."""
    name = _name(labels, key)
    if not labels.get(name):
        return None
    try:
        value = decode(labels[name].encode())
        encode(value)  # what nobody can write again goes into no record either
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise SpecError(f"the image's label {name} is no JSON object", hint=_HINT)
    return value
