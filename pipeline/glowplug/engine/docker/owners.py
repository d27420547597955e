"""Whose container is it: labels that let a later build remove what a killed one left, and never a live one's.

A build on this machine is asked for by process id and start time. One on another machine, or in another container
with the same engine, cannot be asked; its containers count as left over when they have outlived their own time limit,
by the engine's clock.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glowplug.engine.docker.client import Client

LABEL_OWNER = "dev.glowplug.owner"
LABEL_TIMEOUT_S = "dev.glowplug.timeout-s"
# For what happens before the command starts and after it has ended: archives go in and out.
_SPARE_S = 3600.0
# Positions in what _stat returns: field 22 of proc(5); states of a process that only waits for its parent's look.
_STARTED = 19
_ENDED = (b"Z", b"X")


@dataclass(frozen=True)
class Builder:
    """A process, told apart from all others there are or were.

    Attributes:
        machine: the kernel's boot and the namespace that the id is from; ``""`` where /proc does not tell.
        pid: process id.
        started: when it was started, in clock ticks since boot (proc(5), stat field 22).
    """

    machine: str
    pid: int
    started: int

    def __str__(self) -> str:
        return f"{self.machine}/{self.pid}/{self.started}"


def this_process() -> Builder:
    """Return who we are."""
    fields = _stat(os.getpid())
    return Builder(_machine(), os.getpid(), int(fields[_STARTED]) if fields else 0)


def labels(owner: Builder, timeout_s: float) -> dict[str, str]:
    """Return the labels of a container that ``owner`` makes for a command that may take ``timeout_s``."""
    return {LABEL_OWNER: str(owner), LABEL_TIMEOUT_S: f"{timeout_s:.0f}"}


def sweep(client: Client) -> None:
    """Remove the containers whose builders were killed.

    Raises:
        EngineError: the engine does not answer.
    """
    with client.asking("list its containers", ""):
        containers = client.api.containers(all=True, filters={"label": LABEL_OWNER})
        now = engine_time(client.api.info()["SystemTime"]) if containers else 0.0
    us = this_process()
    for container in containers:
        if is_left_over(container, us, now):
            client.remove_container(container["Id"])


def is_left_over(container: Mapping[str, Any], us: Builder, now: float) -> bool:
    """Decide whether nobody waits for a container any more.

    Args:
        container: an entry of the engine's list (Docker Engine API, ContainerList).
        us: the process that asks.
        now: the engine's time, in seconds since 1970.
    """
    found = container.get("Labels") or {}
    owner = _parse(found.get(LABEL_OWNER, ""))
    if owner is None:
        return False  # no container of ours
    if us.machine and owner.machine == us.machine:
        return not _is_alive(owner)
    try:
        timeout_s = float(found.get(LABEL_TIMEOUT_S, ""))
    except ValueError:
        return False
    return bool(now > container["Created"] + timeout_s + _SPARE_S)


def engine_time(system_time: str) -> float:
    """Return the engine's ``SystemTime`` (RFC 3339 with nanoseconds) in seconds since 1970."""
    whole, zone = re.sub(r"\.\d+", "", system_time), "+00:00"
    return dt.datetime.fromisoformat(whole.replace("Z", zone)).timestamp()


def _parse(text: str) -> Builder | None:
    machine, _, rest = text.partition("/")
    pid, _, started = rest.partition("/")
    return Builder(machine, int(pid), int(started)) if pid.isdecimal() and started.isdecimal() else None


def _is_alive(owner: Builder) -> bool:
    fields = _stat(owner.pid)
    if fields:
        return int(fields[_STARTED]) == owner.started and fields[0] not in _ENDED
    try:  # /proc may hide other users' processes
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        namespace = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return ""
    return f"{boot}.{namespace}"


def _stat(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat from the third on; none for a process that is not to be seen."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return []
    return stat.rpartition(b")")[2].split()
