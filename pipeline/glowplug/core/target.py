"""What a cache is valid for, and the short text of it that goes into a tag."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from glowplug.errors import IntegrityError

ANNOTATION_PREFIX = "dev.glowplug.target."


class Target(NamedTuple):
    """Everything that must be equal for torch to reuse a cache (docs/explanation/what-voids-a-cache.md).

    Attributes:
        device_kind: ``cuda``, ``rocm`` or ``cpu``.
        device_name: the driver's full name of the GPU, since Inductor hashes the name (codecache.py, CacheBase.get_system);
            ``cpu`` when there is no GPU.
        device_arch: ``sm_90``, ``gfx942``, or the CPU's instruction set as Inductor sees it (``avx512_vnni``).
        os, machine, libc: ``linux``, ``x86_64``, ``glibc-2.36``.
        python: ``3.11``, because cached wrappers and pickles follow the interpreter's minor version.
        torch: the full version with its local part, ``2.13.0+cu130``.
        accelerator: the CUDA or ROCm version torch was built with, empty for a CPU build.
        triton: its version, empty when it is not installed.
    """

    device_kind: str
    device_name: str
    device_arch: str
    os: str
    machine: str
    libc: str
    python: str
    torch: str
    accelerator: str
    triton: str

    @property
    def gpu_type(self) -> str:
        """The slug in a tag: ``h100-80gb-hbm3-sm90``, ``cpu-x86_64-avx512_vnni``."""
        if self.device_kind == "cpu":
            return slug(f"cpu-{self.machine}-{self.device_arch}")
        name = re.sub(r"\b(nvidia|amd|geforce|instinct|graphics)\b", "", self.device_name.lower())
        return slug(f"{name}-{self.device_arch.replace('_', '')}")

    def to_json(self) -> dict[str, str]:
        """Return the fields as they stand in a record."""
        return self._asdict()

    def to_annotations(self) -> dict[str, str]:
        """Return the fields as they stand on a manifest and on an index entry."""
        return {ANNOTATION_PREFIX + name.replace("_", "."): value for name, value in self._asdict().items()}


FIELD_NAMES = Target._fields


def target_from_json(value: Any) -> Target:
    """Read what ``to_json`` wrote.

    Raises:
        IntegrityError: a field is missing or no text.
    """
    if not isinstance(value, Mapping) or any(not isinstance(value.get(name), str) for name in FIELD_NAMES):
        raise IntegrityError("a record does not say which target its cache is for")
    return Target(**{name: value[name] for name in FIELD_NAMES})


def target_from_annotations(annotations: Mapping[str, str]) -> Target | None:
    """Read what ``to_annotations`` wrote; ``None`` when these are another artifact's annotations."""
    values = {name: annotations.get(ANNOTATION_PREFIX + name.replace("_", ".")) for name in FIELD_NAMES}
    if any(value is None for value in values.values()):
        return None
    return Target(**{name: value or "" for name, value in values.items()})


def slug(text: str) -> str:
    """Reduce ``text`` to the characters that a tag may hold (distribution-spec: ``[A-Za-z0-9._-]``)."""
    return re.sub(r"-{2,}", "-", re.sub(r"[^A-Za-z0-9._]+", "-", text)).strip("-.")
