"""What people see while a command works: steps with their seconds on stderr, colour only where it helps."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
# Without a terminal, one line this often shows that a long step is alive.
_HEARTBEAT_S = 30.0


class Console:
    """Talks to people on stderr, as long as it is there: nobody listening is no reason to stop."""

    def __init__(self, stream: TextIO | None = None, environ: Mapping[str, str] = os.environ) -> None:
        self._stream: TextIO | None = stream or sys.stderr  # None when it is closed
        self._live = self._stream is not None and self._stream.isatty() and environ.get("TERM") != "dumb"
        self._colour = self._live and not environ.get("NO_COLOR")
        self._status = ""
        self._last_beat = 0.0
        # Layers are fetched in parallel, and each may have something to say.
        self._lock = threading.Lock()

    def style(self, text: str, style: str) -> str:
        """Return ``text`` in a style, where the stream shows styles."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self._colour else text

    def line(self, text: str = "") -> None:
        """Say one thing."""
        with self._lock:
            self._clear()
            self._write(f"{text}\n")

    def note(self, text: str) -> None:
        """Say something that most readers may skip."""
        self.line(self.style(f"  {printable(text)}", "dim"))

    def warn(self, text: str) -> None:
        """Say something that the reader should act on some day."""
        self.line(f"{self.style('warning:', 'yellow')} {printable(text)}")

    def error(self, message: str, hint: str = "") -> None:
        """Say why the command ends here, and what to do next."""
        self.line(f"{self.style('error:', 'red')} {printable(message)}")
        if hint:
            self.line(f"{self.style('hint:', 'bold')} {printable(hint)}")

    def progress(self, text: str) -> None:
        """Show how far a long step is: in place on a terminal, now and then elsewhere."""
        with self._lock:
            if self._live:
                self._clear()
                self._status = text[: max(20, _width() - 1)]
                self._write(self._status)
            elif time.monotonic() - self._last_beat > _HEARTBEAT_S:
                self._last_beat = time.monotonic()
                self._write(f"  {text}\n")

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Show one step of the work: its name, then a tick or a cross, its seconds, and what came out."""
        step = Step(self, name)
        self._last_beat = time.monotonic()
        if not self._live:
            self.line(f"- {name}")
        try:
            yield step
        except BaseException:
            self.line(f"{self.style('✗', 'red')} {name} {self.style(step.seconds, 'dim')}")
            raise
        result = f": {printable(step.result)}" if step.result else ""
        self.line(f"{self.style('✓', 'green')} {name}{result} {self.style(step.seconds, 'dim')}")

    def _clear(self) -> None:
        if self._status:
            self._write("\r" + " " * len(self._status) + "\r")
            self._status = ""

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # the reader of a pipe is gone, or a log's disk is full
            self._stream = sys.stderr = None  # or the interpreter complains when it flushes at its end


class Step:
    """A step in progress; ``result`` is what its closing line says."""

    def __init__(self, console: Console, name: str) -> None:
        self._console = console
        self._name = name
        self._started = time.monotonic()
        self.result = ""

    @property
    def seconds(self) -> str:
        """How long it has been going on, as text."""
        return f"({time.monotonic() - self._started:.1f} s)"

    def progress(self, text: str) -> None:
        """Show how far it is."""
        self._console.progress(f"{self._name}: {text}")


def _width() -> int:
    try:
        return os.get_terminal_size(2).columns or 80  # some terminals do not say
    except OSError:
        return 80


def printable(text: str) -> str:
    """Return text that may come from an artifact or a registry so that it cannot steer a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def size_text(size_bytes: int) -> str:
    """Write a size as people read it: ``3.4 MB`` (decimal units, as registries show them)."""
    if size_bytes < 1000:
        return f"{size_bytes} B"
    value = size_bytes / 1000
    for unit in ("kB", "MB"):
        if round(value, 1) < 1000:
            return f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.2f} GB"
