"""Supervise: stay the parent of a server as if we were not there, and know what became of it."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from glowplug.boot.companion import Companion, Events
from glowplug.boot.processes import orphans, reap_adopted, send, start
from glowplug.boot.readiness import Readiness
from glowplug.boot.server import Server
from glowplug.boot.settings import Setting
from glowplug.boot.signals import Signals
from glowplug.boot.terminal import controlling_terminal
from glowplug.report.console import Console

# Kubernetes kills after 30 s. docker stop does after 10 s, unless it is told otherwise.
DEFAULT_GRACE_S = 25.0
_GRACE = Setting("GLOWPLUG_GRACE_S", DEFAULT_GRACE_S, "seconds")
# SIGHUP is none of them: to many servers it means "read your configuration again".
_STOPS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGQUIT})
# How a process dies of a native library that is broken, or made for another CPU.
_CRASHES = frozenset({signal.SIGBUS, signal.SIGSEGV, signal.SIGILL, signal.SIGABRT, signal.SIGFPE})
# Orphans have half of the time that is left to end by themselves, and no more than this.
_ORPHANS_S = 5.0
# An orphan of an orphan becomes ours without a signal, so look again.
_LOOK_AGAIN_S = 0.1
# After the deadline, for on_stopped to say that it was too late.
_LAST_WORD_S = 1.0


class Ending(NamedTuple):
    """How a server ended.

    Attributes:
        status: what to exit with: its own status, or 128 + n when signal n killed it.
        signal: the signal that killed it.
        was_ready: it was ready at some time.
        failed_setup: it said that it never would be ready, whatever its exit status.
        stopped: somebody asked for the end.
    """

    status: int
    signal: int | None
    was_ready: bool
    failed_setup: bool
    stopped: bool


def should_start_cold(ending: Ending, readiness: Readiness, *, cache_was_active: bool) -> bool:
    """Decide whether a server that ended is started once more, without the cache.

    It is when the cache may be to blame: it ended before it was ready, and nobody asked for that. A command that cannot
    be asked whether it is ready may be no server at all, and must not run twice because it failed; only a death that is
    typical for broken native code counts then. A shell or an init in between reports it as a status of 128 + n.
    """
    if not cache_was_active or ending.was_ready or ending.stopped:
        return False
    if readiness.is_explicit:
        return ending.failed_setup or ending.status != 0
    return ending.status - 128 in _CRASHES


def grace_period(environ: Mapping[str, str], console: Console) -> float:
    """Return the seconds between a request to stop and the end: ``GLOWPLUG_GRACE_S``, or the default."""
    return _GRACE.read(environ, console)


def supervise(
    command: Sequence[str], environ: Mapping[str, str], readiness: Readiness, grace_s: float, events: Events
) -> Ending:
    """Run a command to its end, pass on every signal, and leave nothing of it behind.

    From the first SIGTERM, SIGINT or SIGQUIT on it has ``grace_s`` seconds, then it is killed. Orphans that it leaves
    are ended, and ``on_stopped`` has what remains. A callback that is still at work then goes on in a daemon thread, so
    the caller should leave by ``os._exit``. Main thread only.

    Raises:
        UsageError: the command cannot be started; no event was sent.
    """
    terminal = controlling_terminal()
    try:
        with Signals(has_terminal=terminal is not None) as signals:
            server = Server(start(command, environ, signals), terminal)
            supervisor = _Supervisor(server, signals, Companion(readiness, events, signals.wake), grace_s)
            try:
                supervisor.run()
            except Exception as error:  # noqa: BLE001 - ours to report, not the server's to die of
                events.console.warn(f"{type(error).__name__}: {error} (please report this); only waiting now")
                server.await_end(signals)
            return supervisor.ending()
    finally:
        if terminal is not None:
            terminal.close()


class _Supervisor:
    """The loop: sleeps until a signal, a child's death, a callback's end or the deadline."""

    def __init__(self, server: Server, signals: Signals, companion: Companion, grace_s: float) -> None:
        self._server = server
        self._signals = signals
        self._companion = companion
        self._grace_s = grace_s
        self._deadline: float | None = None
        self._stopped = False

    def run(self) -> None:
        """Stay until the server, its orphans and the callbacks are done, or their time is over."""
        self._companion.begin()
        self._await_server()
        deadline = self._set_deadline()
        self._end_orphans(deadline)
        self._await_callbacks(deadline)

    def ending(self) -> Ending:
        """Say how it ended; only once it has."""
        server, companion = self._server, self._companion
        if server.status is None:
            raise RuntimeError("the server has not ended")
        # With the terminal in its hands, whoever sits there asks the server, and not us.
        stopped = self._stopped or server.had_terminal
        return Ending(server.status, server.signal, companion.ready, companion.failed, stopped)

    def _await_server(self) -> None:
        is_killed = False
        while self._server.status is None:
            left_s = None if self._deadline is None or is_killed else self._deadline - time.monotonic()
            if left_s is not None and left_s <= 0:
                send(self._server.pid, signal.SIGKILL)
                is_killed = True
            else:
                self._receive(left_s)

    def _end_orphans(self, deadline: float) -> None:
        now = time.monotonic()
        patience_ends = now + min(_ORPHANS_S, max(0.0, deadline - now) / 2)
        told: set[tuple[int, int]] = set()
        # What even SIGKILL does not end in time waits for a device.
        while (left := orphans()) and time.monotonic() < deadline + _LAST_WORD_S:
            number = signal.SIGTERM if time.monotonic() < patience_ends else signal.SIGKILL
            for pid in {process.pid for process in left if (process.pid, number) not in told}:
                told.add((pid, number))
                send(pid, number)
            self._receive(_LOOK_AGAIN_S)

    def _await_callbacks(self, deadline: float) -> None:
        self._companion.stopped(deadline)
        while not self._companion.finished:
            left_s, was_stopped = deadline + _LAST_WORD_S - time.monotonic(), self._stopped
            if left_s <= 0 or (_STOPS & set(self._receive(left_s)) and was_stopped):
                return  # too late, or asked to stop once more

    def _receive(self, timeout_s: float | None) -> bytes:
        """Wait for signals and act on them."""
        numbers = self._signals.wait(timeout_s)
        for number in numbers:
            if number not in (0, signal.SIGCHLD):
                self._server.forward(number)
            if number in _STOPS:
                self._stop()
        if self._companion.gave_up and self._deadline is None:
            self._set_deadline()
            self._server.forward(signal.SIGTERM)
        self._server.look()
        reap_adopted(self._server.pid if self._server.status is None else 0, self._companion.is_busy)
        return numbers

    def _stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            deadline = self._set_deadline()
            if self._server.status is None:
                self._companion.stopping(deadline)

    def _set_deadline(self) -> float:
        if self._deadline is None:
            self._deadline = time.monotonic() + self._grace_s
        return self._deadline
