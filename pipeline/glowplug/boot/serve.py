"""Serve: stay the server's parent; start it once more without the cache if the cache may be to blame; send back what it
compiled.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from glowplug.boot.companion import Events
from glowplug.boot.fetch import Fetched
from glowplug.boot.readiness import Readiness
from glowplug.boot.run import Prepared
from glowplug.boot.supervise import Ending, should_start_cold, supervise
from glowplug.registry.options import Options
from glowplug.report.console import Console

UpdateMode = Literal["off", "pending", "direct"]


class Service(NamedTuple):
    """How a command is kept.

    Attributes:
        command: what to start, with its arguments.
        readiness: how to tell that it is ready.
        grace_s: seconds between the first request to stop and the end.
        update: where what it compiled goes.
        registry: timeouts and transport for that.
    """

    command: Sequence[str]
    readiness: Readiness
    grace_s: float
    update: UpdateMode
    registry: Options


def serve(service: Service, prepared: Prepared, environ: Mapping[str, str], console: Console) -> int:
    """Run the command to its end, and return the exit status that it would have had without us.

    Args:
        service: the command, and how it is kept.
        prepared: the environment that leads it to the cache.
        environ: the environment without one, for a second start.
        console: where to say what happens.

    Raises:
        UsageError: the command cannot be started.
    """
    fetched = prepared.fetched
    events = _events(service, fetched, prepared.environment, console)
    try:
        ending = supervise(service.command, prepared.environment, service.readiness, service.grace_s, events)
    finally:
        if prepared.private is not None:
            shutil.rmtree(prepared.private, ignore_errors=True)
    if should_start_cold(ending, service.readiness, cache_was_active=fetched is not None):
        console.warn(
            f"the command {_how(ending)} before it was ready; starting it once more, without the cache"
        )
        plain = Events(console)
        ending = supervise(service.command, environ, service.readiness, service.grace_s, plain)
    return ending.status


def _events(
    service: Service, fetched: Fetched | None, environment: Mapping[str, str], console: Console
) -> Events:
    if fetched is None:
        return Events(console)
    # A setup that fails with a cache may succeed without: end it, so that it can be started once more.
    failed = _give_up
    if service.update == "off":
        return Events(console, on_failed=failed)
    from glowplug.boot.updater import Updater  # noqa: PLC0415 - packing and pushing, which most starts never do

    updater = Updater(service.update, fetched, environment, service.registry, console)
    return Events(
        console,
        on_ready=updater.on_ready,
        on_failed=failed,
        on_tick=updater.on_tick,
        on_stopped=updater.on_stopped,
    )


def _give_up() -> bool:
    return True


def _how(ending: Ending) -> str:
    if ending.failed_setup:
        return "failed in its setup"
    return f"died of signal {ending.signal}" if ending.signal else f"ended with status {ending.status}"
