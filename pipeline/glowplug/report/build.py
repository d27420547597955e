"""What a build shows at its end: eager, cold and warm side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.core.proof import Proof, RunReport
from glowplug.report.console import size_text
from glowplug.report.table import table

if TYPE_CHECKING:
    from glowplug.build.pipeline import BuildResult


def proof_table(proof: Proof) -> str:
    """Return the runs of a proof as a table."""
    rows = [
        ["", "ready s", "first answer s", "all inputs s", "steady s", "native builds", "Triton", "misses"]
    ]
    for name, report in (("eager", proof.eager), ("cold", proof.cold), ("warm", proof.warm)):
        if report is not None:
            rows.append([name, *_cells(report)])
    return table(rows)


def _cells(report: RunReport) -> list[str]:
    work = report.work
    steady = f"{report.steady_s:.3f}" if report.steady_s is not None else "-"
    return [
        f"{report.ready_at_s:.1f}",
        f"{report.first_answer_s:.1f}",
        f"{report.warmed_at_s:.1f}",
        steady,
        str(work.builds),
        str(work.triton_compiles),
        str(work.misses),
    ]


def build_table(result: BuildResult) -> str:
    """Return the table, and the line under it."""
    if result.sealed is None:
        return ""
    proof = result.sealed.record.proof
    verdict = "proved" if proof.holds else "PARTIAL"
    size = size_text(result.manifest.size_bytes)
    return (
        f"\n{proof_table(proof)}\n\n{verdict}; cold / warm to the first answer: {proof.speedup:.1f}; {size}\n"
    )
