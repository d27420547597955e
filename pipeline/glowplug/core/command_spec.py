"""What ``run.command`` of the spec says: a server, when it is ready, how it is stopped, and what of its answers counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ReadyCondition:
    """How one can tell that a server is ready: exactly one of ``url`` and ``log``.

    Attributes:
        url: an ``http``, ``https`` or ``tcp`` URL, as the server's own machine or container sees it.
        log: a regular expression for a line that the server prints.
        json: what a JSON answer must hold; it may hold more.
        status: what the answer's status must be; ``None`` for any 2xx.
        timeout_s: how long it may take.
    """

    url: str | None = None
    log: str | None = None
    json: Mapping[str, Any] | None = None
    status: int | None = None
    timeout_s: float = 1200.0


@dataclass(frozen=True)
class StopRequest:
    """How a server is asked to end, and when it is killed."""

    signal: str = "SIGTERM"
    timeout_s: float = 30.0


# What two answers to one request never share: OpenAI's and Triton's ids and times, Cog's, SGLang's.
IGNORED_KEYS = (
    *("id", "request_id", "created", "created_at", "started_at", "completed_at"),
    *("metrics", "logs", "e2e_latency"),
)


@dataclass(frozen=True)
class CommandWorkload:
    """A server that is started by a command and asked over HTTP, one request per input.

    Attributes:
        command: its words; the first is looked up on PATH.
        url: where requests go: ``http://127.0.0.1:8000``.
        ready: how one can tell that it takes requests.
        stop: how it is ended.
        ignore: keys of JSON objects in answers that are not compared, at any depth.
        dir: its working directory, relative to the spec file.
    """

    command: tuple[str, ...]
    url: str
    ready: ReadyCondition
    stop: StopRequest = field(default_factory=StopRequest)
    ignore: tuple[str, ...] = IGNORED_KEYS
    dir: str = "."

    def captured(self) -> dict[str, Any]:
        """Return what of it changes what is captured or compared; how it is started and stopped does not."""
        return {"command": self.command, "ignore": sorted(self.ignore), "dir": self.dir}
