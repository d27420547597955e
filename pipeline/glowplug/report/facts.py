"""The human form of ``glowplug facts``, and the lines about a target that other reports show too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from glowplug.core.facts import Facts
from glowplug.core.target import Target
from glowplug.report.console import printable


def facts_text(facts: Facts, interpreter: str, compilers: Mapping[str, str]) -> str:
    """Return what was found out about a machine."""
    gpus = f"{facts.device_count}, driver {facts.driver}" if facts.device_count else "none"
    rows = [
        *target_rows(facts.target),
        ["interpreter", interpreter],
        ["GPUs", gpus],
        ["CPU", facts.cpu_model or "unknown"],
        *(["compiler", path] for path in compilers.values()),
        *(["note", note] for note in facts.notes),
    ]
    return printable("\n".join([facts.target.gpu_type, *aligned(rows)]))


def target_rows(target: Target) -> list[list[str]]:
    """Return what a cache has to fit, as names and values."""
    versions = "".join(
        f", {name} {version}"
        for name, version in (("CUDA/ROCm", target.accelerator), ("triton", target.triton))
        if version
    )
    machine = f"{target.device_name} ({target.device_arch}), {target.os}/{target.machine}, {target.libc}"
    return [["target", machine], ["torch", (target.torch or "none") + versions], ["python", target.python]]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return names and values as indented lines, the values below each other."""
    width = max(len(name) for name, _ in rows)
    return [f"  {name.ljust(width)}  {value}" for name, value in rows]
