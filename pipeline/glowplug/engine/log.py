"""The end of what a model printed, for the sentence that says why a run failed."""

from __future__ import annotations

from pathlib import Path

_TAIL_BYTES = 16 * 1024


def tail(log: Path) -> str:
    """Return the last kilobytes of a log; nothing of one that is not there."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            return file.read(_TAIL_BYTES).decode(errors="replace")
    except OSError:
        return ""


def last_lines(log: Path, count: int = 15) -> str:
    """Return the last lines of a log that say something."""
    lines = [line.rstrip() for line in tail(log).splitlines() if line.strip()]
    return "\n".join(lines[-count:])
