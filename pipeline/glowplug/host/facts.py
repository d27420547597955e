"""The facts about this machine and the model's interpreter, put together."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from glowplug.core.facts import Facts
from glowplug.core.target import FIELD_NAMES, Target
from glowplug.errors import UsageError
from glowplug.host.cpu import Cpu, read_cpu
from glowplug.host.gpu import Gpus
from glowplug.host.python_env import PythonEnv, read_python_env


def gather_facts(interpreter: Path | None = None, overrides: Mapping[str, str] | None = None) -> Facts:
    """Gather what decides whether a cache fits, without importing torch.

    Args:
        interpreter: what runs the model; this interpreter when ``None``.
        overrides: target fields to pretend, by name, so that a test can stand for a machine it does not have.

    Raises:
        EngineError: the interpreter is missing or broken.
        UsageError: an override names no field of a target.
    """
    pretended = _checked(overrides or {})
    env = read_python_env(interpreter)
    gpus = _visible_gpus(env)
    return combine(env, read_cpu(env.machine), gpus, pretended)


def combine(env: PythonEnv, cpu: Cpu, gpus: Gpus, overrides: Mapping[str, str]) -> Facts:
    """Build the facts from what was read; the first visible GPU decides, as it is torch's default device."""
    if gpus.gpus:
        kind, name, arch = ("cuda" if env.cuda else "rocm"), gpus.gpus[0].name, gpus.gpus[0].arch
    else:
        kind, name, arch = "cpu", "cpu", cpu.isa
    target = Target(
        device_kind=kind,
        device_name=name,
        device_arch=arch,
        os=env.os,
        machine=env.machine,
        libc=env.libc,
        python=env.python,
        torch=env.torch,
        accelerator=env.accelerator,
        triton=env.triton,
    )
    return Facts(
        target=target._replace(**overrides),
        device_count=len(gpus.gpus),
        driver=gpus.driver,
        cpu_model=cpu.model,
        notes=_notes(gpus),
    )


def _notes(gpus: Gpus) -> tuple[str, ...]:
    notes = [gpus.problem] if gpus.problem else []
    names = list(dict.fromkeys(gpu.name for gpu in gpus.gpus))
    if len(names) > 1:
        notes.append(f"GPUs of several kinds ({', '.join(names)}): the first visible one decides")
    return tuple(notes)


def _visible_gpus(env: PythonEnv) -> Gpus:
    # A torch that was built for the CPU does not see the GPU next to it, and a CUDA torch no AMD one.
    # Only one of the two is ever needed, and a start waits for imports.
    if env.cuda:
        from glowplug.host.nvidia import read_nvidia  # noqa: PLC0415

        return read_nvidia(os.environ)
    if env.hip:
        from glowplug.host.amd import read_amd  # noqa: PLC0415

        return read_amd(os.environ)
    return Gpus()


def _checked(overrides: Mapping[str, str]) -> dict[str, str]:
    for name in overrides:
        if name not in FIELD_NAMES:
            import difflib  # noqa: PLC0415

            close = difflib.get_close_matches(name, FIELD_NAMES, n=1)
            raise UsageError(
                f"a target has no field {name!r}",
                hint=f"did you mean {close[0]}?" if close else f"its fields: {', '.join(FIELD_NAMES)}",
            )
    return dict(overrides)
