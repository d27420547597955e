"""What goes on beside a running server, in threads of its own: asking whether it is ready, and the callbacks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from glowplug.boot.readiness import Readiness, State, ask
from glowplug.errors import GlowplugError
from glowplug.report.console import Console

_TICK_S = 1.0
_FIRST_PAUSE_S = 0.05  # between two questions; grows to a tick


def _nothing(*_: object) -> None:
    pass


def _leave_it() -> bool:
    return False


class Events(NamedTuple):
    """What to call in a server's life. An exception becomes a line on the console; no signal waits for a callback.

    They follow each other, never two at a time, but for ``on_stopping``: it has a thread of its own, so that it can tell
    an ``on_tick`` that is still at work to hurry. Deadlines are on ``time.monotonic()``'s clock, and a callback is left
    behind when its deadline has passed.

    Attributes:
        console: where troubles are told.
        on_ready: the server is ready; once, or never.
        on_failed: the server says that it never will be ready, but may stay to tell so, as Cog's does. Returns
            whether to end it, because it can be started in another way.
        on_tick: about once a second from then on, until it is asked to stop.
        on_stopping: the first request to stop came, and the server has until the deadline.
        on_stopped: the server and its orphans are gone; what is left until the deadline may be used. It is called
            whether the server ever was ready or not, but only once the others have returned.
    """

    console: Console
    on_ready: Callable[[], None] = _nothing
    on_failed: Callable[[], bool] = _leave_it
    on_tick: Callable[[], None] = _nothing
    on_stopping: Callable[[float], None] = _nothing
    on_stopped: Callable[[float], None] = _nothing


class Companion:
    """Watches a server for its supervisor, who never waits for it longer than it wants.

    Attributes:
        ready: the server was ready.
        failed: the server said that it never will be.
        gave_up: and it is to be ended.
        finished: ``on_stopped`` has returned, or will not be called.
    """

    def __init__(self, readiness: Readiness, events: Events, wake: Callable[[], None]) -> None:
        self.ready = self.failed = self.gave_up = self.finished = False
        self._readiness = readiness
        self._events = events
        self._wake = wake
        self._over = threading.Event()
        self._calls: list[str] = []  # the callbacks at work
        self._threads: list[threading.Thread] = []

    def begin(self) -> None:
        """The server was started."""
        self._start(self._accompany)

    def is_busy(self) -> bool:
        """Tell whether a callback is at work, and may have started processes."""
        return bool(self._calls)

    def stopping(self, deadline: float) -> None:
        """The server is being stopped: call ``on_stopping``, and no further ``on_tick``."""
        self._over.set()
        if self._events.on_stopping is not _nothing:
            self._start(lambda: self._call("on_stopping", self._events.on_stopping, deadline))

    def stopped(self, deadline: float) -> None:
        """The server is gone: call ``on_stopped``; ``finished`` and a wake-up follow."""
        self._over.set()
        if self._events.on_stopped is _nothing and not self._calls:
            self.finished = True
        else:
            others = tuple(self._threads)
            self._start(lambda: self._last_call(others, deadline))

    def _accompany(self) -> None:
        state = self._await_answer()
        if state is State.FAILED:
            self.failed = True
            self._call("on_failed", self._fail)
        elif state is State.READY:
            self.ready = True
            self._call("on_ready", self._events.on_ready)
            while self._events.on_tick is not _nothing and not self._over.wait(_TICK_S):
                self._call("on_tick", self._events.on_tick)

    def _await_answer(self) -> State:
        started, pause_s = time.monotonic(), _FIRST_PAUSE_S
        while not self._over.wait(pause_s):
            state = ask(self._readiness, time.monotonic() - started)
            if state is not State.STARTING:
                return state
            pause_s = min(pause_s * 1.5, _TICK_S)
        return State.STARTING

    def _fail(self) -> None:
        self.gave_up = self._events.on_failed()
        self._wake()

    def _last_call(self, others: tuple[threading.Thread, ...], deadline: float) -> None:
        for thread in others:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in others):
            names = ", ".join(self._calls) or "a question to the server"
            self._events.console.warn(f"{names} took longer than the grace period, and is left behind")
        else:
            self._call("on_stopped", self._events.on_stopped, deadline)
        self.finished = True
        self._wake()

    def _call(self, name: str, callback: Callable[..., None], *arguments: float) -> None:
        self._calls.append(name)
        try:
            callback(*arguments)
        except GlowplugError as error:
            self._events.console.warn(str(error))
            self._events.console.note(error.hint)
        except BaseException as error:  # noqa: BLE001 - the server goes on
            self._report(name, error)
        finally:
            self._calls.remove(name)

    def _start(self, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - the server goes on
                self._report("watching the server", error)

        # A daemon: nobody waits for one that hangs.
        thread = threading.Thread(target=guarded, name="glowplug-companion", daemon=True)
        thread.start()
        self._threads.append(thread)

    def _report(self, what: str, error: BaseException) -> None:
        self._events.console.warn(f"{what}: {type(error).__name__}: {error} (please report this)")
