"""The human form of ``glowplug inspect``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from glowplug.core.record import Record
from glowplug.core.reference import Reference
from glowplug.report.build import proof_table
from glowplug.report.console import printable, size_text
from glowplug.report.facts import aligned, target_rows
from glowplug.report.table import table

if TYPE_CHECKING:
    from glowplug.boot.describe import Described


def inspect_text(reference: Reference, artifacts: Sequence[Described]) -> str:
    """Return everything about a reference that people ask for."""
    return printable("\n\n".join([str(reference), *(_artifact_text(artifact) for artifact in artifacts)]))


def _artifact_text(artifact: Described) -> str:
    record = artifact.record
    rows = [
        ["model", f"{record.model} {record.version}"],
        *target_rows(record.target),
        *([["image", record.image]] if record.image else []),
        ["digest", artifact.digest],
        ["size", f"{size_text(artifact.manifest.size_bytes)} in {len(artifact.manifest.layers)} layers"],
        ["created", f"{record.created} by {record.builder}"],
        ["inputs", str(len(record.coverage))],
    ]
    lines = [record.target.gpu_type, *aligned(rows)]
    kinds = [["kind", "files", "unpacked"]]
    kinds += [[name, str(kind.files), size_text(kind.size_bytes)] for name, kind in record.kinds.items()]
    return "\n".join([*lines, "", _indented(table(kinds)), "", _indented(_proof_text(record))])


def _proof_text(record: Record) -> str:
    proof = record.proof
    conditions = [f"  {name}: {value}" for name, value in proof.conditions.items()]
    verdict = "proved: no compile work after a restore, same output" if proof.holds else "PARTIAL:"
    shortfalls = [f"  {shortfall}" for shortfall in proof.shortfalls]
    speedup = f"cold / warm to the first answer: {proof.speedup:.1f}"
    updates = [
        f"not proved: {update.files} files, {size_text(update.size_bytes)}, added by a server at {update.created}"
        for update in record.updates
    ]
    return "\n".join(
        [proof_table(proof), "", verdict, *shortfalls, *updates, speedup, "replayed with:", *conditions]
    )


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())
