"""Whole processes, measured by the kernel: seconds, CPU seconds, and the largest resident set."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Case:
    """A command to measure.

    Attributes:
        argv: what to start.
        before, after: what belongs to a run and is not measured; ``after`` also checks the result.
        environ: what differs from this process's environment.
    """

    argv: Sequence[str]
    before: Callable[[], None] = _nothing
    after: Callable[[], None] = _nothing
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """One run, with its children: seconds, CPU seconds, and the largest resident set of one process in bytes."""

    wall_s: float
    cpu_s: float
    peak_rss_bytes: int


@dataclass(frozen=True)
class Measured:
    """All runs of a case."""

    name: str
    samples: tuple[Sample, ...]

    def median(self, quantity: str) -> float:
        """Return the median of ``wall_s``, ``cpu_s`` or ``peak_rss_bytes``."""
        return float(statistics.median(getattr(sample, quantity) for sample in self.samples))

    def to_json(self, quantity: str) -> dict[str, Any]:
        """Return one quantity over all runs."""
        values = [round(getattr(sample, quantity), 4) for sample in self.samples]
        return {
            "case": self.name,
            "quantity": quantity,
            "median": round(self.median(quantity), 4),
            "min": min(values),
            "max": max(values),
            "runs": len(values),
        }


def alternate(cases: Mapping[str, Case], rounds: int) -> dict[str, Measured]:
    """Run every case, then every case again: what disturbs the machine disturbs all of them."""
    samples: dict[str, list[Sample]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            case.before()
            samples[name].append(run(case))
            case.after()
    return {name: Measured(name, tuple(found)) for name, found in samples.items()}


def run(case: Case) -> Sample:
    """Run one command to its end.

    Raises:
        RuntimeError: it failed.
    """
    started = time.perf_counter()
    # Its output is small, and a pipe would have to be read meanwhile.
    process = subprocess.Popen(
        case.argv, env=os.environ | case.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode} from {' '.join(case.argv)}")
    return Sample(wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)
