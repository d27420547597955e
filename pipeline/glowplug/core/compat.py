"""Which artifact fits this host: every candidate gets a verdict with its reasons, so the answer explains itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from glowplug.core.oci import Descriptor
from glowplug.core.target import FIELD_NAMES, Target


class Candidate(NamedTuple):
    """One artifact on offer: where it is, and what it is for."""

    descriptor: Descriptor
    target: Target


class Mismatch(NamedTuple):
    """One field that differs: ``torch 2.13.0 ≠ 2.12.1`` (the artifact's value, then this host's)."""

    field: str
    artifact: str
    host: str

    def __str__(self) -> str:
        return f"{self.field.replace('_', ' ')} {self.artifact or 'none'} ≠ {self.host or 'none'}"


class Accepted(NamedTuple):
    """The candidate fits."""

    candidate: Candidate

    def __str__(self) -> str:
        return f"{self.candidate.target.gpu_type}: fits"


class Rejected(NamedTuple):
    """The candidate does not fit, for these reasons."""

    candidate: Candidate
    mismatches: tuple[Mismatch, ...]

    def __str__(self) -> str:
        return f"{self.candidate.target.gpu_type}: " + ", ".join(map(str, self.mismatches))


Verdict = Accepted | Rejected


def judge(candidate: Candidate, host: Target) -> Verdict:
    """Compare one candidate with this host, field by field."""
    mismatches = tuple(
        Mismatch(name, getattr(candidate.target, name), getattr(host, name))
        for name in FIELD_NAMES
        if not _agree(name, getattr(candidate.target, name), getattr(host, name))
    )
    return Rejected(candidate, mismatches) if mismatches else Accepted(candidate)


def choose(candidates: Sequence[Candidate], host: Target) -> tuple[Candidate | None, tuple[Verdict, ...]]:
    """Return the candidate that fits and the verdict on each, the closest first.

    Candidates of one target are told apart by digest, so that two hosts always choose alike.
    """
    verdicts = sorted((judge(candidate, host) for candidate in candidates), key=_rank)
    best = next((v.candidate for v in verdicts if isinstance(v, Accepted)), None)
    return best, tuple(verdicts)


def _rank(verdict: Verdict) -> tuple[int, str]:
    distance = len(verdict.mismatches) if isinstance(verdict, Rejected) else 0
    return distance, verdict.candidate.descriptor.digest


def _agree(name: str, artifact: str, host: str) -> bool:
    if name != "libc":
        return artifact == host
    # A library that was linked against an older glibc loads on a newer one; the symbol versions go one way only.
    family, _, version = artifact.partition("-")
    host_family, _, host_version = host.partition("-")
    return family == host_family and _version(version) <= _version(host_version)


def _version(text: str) -> tuple[int, ...]:
    # What an artifact says may be anything: only numbers that a version can have are looked at.
    return tuple(int(part) for part in re.findall(r"[0-9]{1,9}", text))
