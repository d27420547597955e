"""Processes on Linux: start one in a group of its own, adopt what it leaves behind, and reap."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from glowplug.boot.signals import Signals
from glowplug.errors import UsageError

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36
_Prctl = Callable[[int, int], int]


def start(command: Sequence[str], environ: Mapping[str, str], signals: Signals) -> int:
    """Start a command as exec would have: same streams, default signals, nothing masked; in its own process group.

    Returns its process id; waiting for it is the caller's. From now on its orphans become our children. When this process is killed the command is killed too, as it would
    have been in its place.

    Raises:
        UsageError: it cannot be started.
    """
    us, prctl = os.getpid(), _prctl()
    prctl(_PR_SET_CHILD_SUBREAPER, 1)

    def in_child() -> None:
        os.setpgid(0, 0)
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != us:  # killed before that took effect
            os._exit(128 + signal.SIGKILL)
        signals.reset_in_child()

    try:
        with signals.held_back():
            # No thread of ours is running yet, and in_child only makes system calls.
            process = subprocess.Popen(command, env=environ, close_fds=False, preexec_fn=in_child)  # noqa: PLW1509
    except OSError as error:
        raise cannot_start(command, error) from error
    process.returncode = 0  # or the object would look after it too
    return process.pid


def cannot_start(command: Sequence[str], error: OSError) -> UsageError:
    """Say why a command cannot be started."""
    return UsageError(
        f"cannot start {command[0]}: {error.strerror}",
        hint="the command comes after --, and is looked up on PATH",
    )


def _prctl() -> _Prctl:
    """Return ``prctl(2)``, or something that does nothing: PID 1 adopts and takes down everyone anyway."""
    if os.getpid() == 1:
        return lambda _option, _value: 0
    try:
        import ctypes  # noqa: PLC0415 - not in every Python, and not needed as PID 1

        function: _Prctl = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return lambda _option, _value: -1
    return function


def send(pid: int, number: int) -> None:
    """Send a signal; negative for a whole group. One that is gone, or that may not be signalled, is no trouble."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def reap_adopted(child: int, is_busy: Callable[[], bool]) -> None:
    """Reap the dead that nobody waits for: orphans that became our children.

    Not ``child``, whose status is wanted. And not what our own code started and waits for while ``is_busy``: such
    processes are in our group, while the command and its descendants never are.
    """
    with contextlib.suppress(ChildProcessError):
        while (dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if dead.si_pid == child or (os.getpgid(dead.si_pid) == os.getpgrp() and is_busy()):
                return
            os.waitpid(dead.si_pid, 0)


class Process(NamedTuple):
    """One line of ``/proc/PID/stat`` (proc(5))."""

    pid: int
    state: str
    parent: int
    group: int


def parse_stat(line: str) -> Process:
    """Read ``PID (NAME) STATE PPID PGRP ...``; a name may hold anything, parentheses too."""
    pid, _, rest = line.partition(" ")
    state, parent, group = rest.rpartition(")")[2].split()[:3]
    return Process(int(pid), state, int(parent), int(group))


def orphans() -> list[Process]:
    """Return the living that became our children; as long as we do not reap them, their ids name nobody else."""
    us, own_group = os.getpid(), os.getpgrp()
    return [
        process
        for process in _processes()
        if process.parent == us and process.group != own_group and process.state not in "ZX"
    ]


def _processes() -> Iterator[Process]:
    with contextlib.suppress(OSError):  # no /proc
        for name in os.listdir("/proc"):  # noqa: PTH208 - names are all that is needed
            if name.isdigit():
                with contextlib.suppress(OSError), open(f"/proc/{name}/stat", errors="replace") as file:  # noqa: PTH123
                    yield parse_stat(file.read())
