"""Signals as something to read: each one that others may send us, in the order in which they came."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

# Never ours to pass on: uncatchable, about our own children, or caused by what this process itself does (a fault, or a
# write to a reader that is gone).
_NOT_FORWARDED = frozenset(
    {
        signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD,
        signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS,
        signal.SIGPIPE, signal.SIGXFSZ,
    }
)  # fmt: skip
# What a terminal sends to a background process that uses it. gunicorn knows them as "more" and "fewer workers".
_TERMINAL_USE = frozenset({signal.SIGTTIN, signal.SIGTTOU})


class Signals:
    """A context in which this process receives every signal that can be passed on, also as PID 1.

    A signal that was ignored when we were started stays ignored, for us and for the command: that is how nohup works.
    Python's own handler writes each number into a pipe (``signal.set_wakeup_fd``), whichever thread the kernel chose,
    so that waiting costs nothing and loses nothing. Main thread only.

    Args:
        has_terminal: there is a controlling terminal. Then SIGTTIN and SIGTTOU are about our use of it, and ignored.
    """

    def __init__(self, *, has_terminal: bool) -> None:
        self._ignored = _TERMINAL_USE if has_terminal else frozenset()
        self._forwarded = frozenset(signal.valid_signals()) - _NOT_FORWARDED - self._ignored
        self._previous: dict[int, Any] = {}

    @property
    def received(self) -> frozenset[int]:
        """What ``wait`` returns, beside SIGCHLD: to be passed on."""
        return self._forwarded & self._previous.keys()

    def __enter__(self) -> Signals:  # noqa: PYI034 - Self is not in Python 3.10, and nobody inherits
        self._reader, self._writer = os.pipe()
        for end in (self._reader, self._writer):
            os.set_blocking(end, False)
        self._poll = select.poll()
        self._poll.register(self._reader, select.POLLIN)
        self._previous_wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in self._forwarded | self._ignored | {signal.SIGCHLD}:
            previous = signal.getsignal(number)
            if previous is signal.SIG_IGN and number != signal.SIGCHLD:
                continue
            self._previous[number] = previous
            signal.signal(number, signal.SIG_IGN if number in self._ignored else _noted)
        self._previous_mask = signal.pthread_sigmask(signal.SIG_SETMASK, ())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self._previous_wakeup)
        for number, previous in self._previous.items():
            # None: a handler that is not Python's, which cannot be put back.
            signal.signal(number, signal.SIG_DFL if previous is None else previous)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._previous_mask)
        os.close(self._reader)
        os.close(self._writer)

    def wait(self, timeout_s: float | None) -> bytes:
        """Return the numbers of the signals that came, oldest first; 0 stands for a call of ``wake``.

        Empty when none comes within ``timeout_s`` (``None``: however long it takes).
        """
        # Rounded up: a deadline that is a fraction of a millisecond away must not become a busy loop.
        self._poll.poll(None if timeout_s is None else max(0, int(timeout_s * 1000) + 1))
        try:
            return os.read(self._reader, 4096)
        except BlockingIOError:
            return b""

    def wake(self) -> None:
        """End the current or next ``wait``; from any thread."""
        with contextlib.suppress(OSError):  # full: then it wakes anyway; closed: nobody waits any more
            os.write(self._writer, b"\0")

    @contextlib.contextmanager
    def held_back(self) -> Iterator[None]:
        """Let signals wait while a child is made.

        Between fork and exec the child would take them for us, with our handlers and into our pipe.
        """
        mask = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def reset_in_child(self) -> None:
        """In a new process: every disposition as exec would have left it, and no signal held back."""
        for number in self._previous:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _noted(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: that the number is in the pipe is enough."""
