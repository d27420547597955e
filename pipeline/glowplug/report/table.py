"""Plain tables: aligned columns, numbers to the right, readable in any log."""

from __future__ import annotations

from collections.abc import Sequence


def table(rows: Sequence[Sequence[str]], *, header: bool = True) -> str:
    """Align rows of equal length; the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    if header:
        lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
