"""The controlling terminal, and which process group is in its foreground."""

from __future__ import annotations

import contextlib
import os
import signal


class Terminal:
    """A controlling terminal; its keys send signals to the foreground group, and only that group may read it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def foreground(self) -> int:
        """Return the process group in the foreground; 0 when the terminal is gone."""
        try:
            return os.tcgetpgrp(self._descriptor)
        except OSError:
            return 0

    def is_ours(self) -> bool:
        """Tell whether keys send their signals to us."""
        return self.foreground() == os.getpgrp()

    def give_to(self, group: int) -> None:
        """Put a group into the foreground. SIGTTOU has to be ignored: we may be in the background."""
        with contextlib.suppress(OSError):
            os.tcsetpgrp(self._descriptor, group)

    def close(self) -> None:
        """Let go of it."""
        os.close(self._descriptor)


def controlling_terminal() -> Terminal | None:
    """Return this session's terminal, wherever stdin comes from; ``None`` in a service or a plain container."""
    try:
        return Terminal(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return None


def stop_job(number: int) -> None:
    """Stop our own process group as the terminal would have, until the shell continues it.

    Where no shell could continue it (PID 1, a session of our own) the kernel does not stop it, and this returns at once.
    """
    previous = signal.signal(number, signal.SIG_DFL)
    os.kill(0, number)
    signal.signal(number, previous)
