"""Whether a server is ready: what its answers mean, and how to ask it."""

from __future__ import annotations

import enum
import json
from typing import NamedTuple

from glowplug.errors import UsageError

# A server that offers nothing to ask counts as ready once it has been up for so long.
ASSUMED_READY_S = 60.0
_ANSWER_TIMEOUT_S = 2.0
_MAX_ANSWER_BYTES = 1 << 20
# Words of a JSON answer's "status" that stand beside a 2xx all the same. Cog's /health-check always answers 200.
_FAILED = {"setup_failed", "defunct"}
_NOT_YET = {"starting", "unhealthy", "initializing", "loading", "pending", "not_ready", "unavailable", "down"}


class Readiness(NamedTuple):
    """How one can tell that the server is ready. Without either it is assumed after ``ASSUMED_READY_S``.

    Attributes:
        url: an HTTP or HTTPS URL on this machine; a certificate is not checked.
        tcp: host and port that accept a connection.
    """

    url: str | None = None
    tcp: tuple[str, int] | None = None

    @property
    def is_explicit(self) -> bool:
        """Whether the server itself says so."""
        return self.url is not None or self.tcp is not None


def parse_readiness(text: str | None) -> Readiness:
    """Read ``http://...``, ``https://...`` or ``HOST:PORT``; ``None`` or nothing asks for no readiness.

    Raises:
        UsageError: it is something else.
    """
    if not text:
        return Readiness()
    if text.startswith(("http://", "https://")):
        return Readiness(url=text)
    host, colon, port = text.rpartition(":")
    if colon and host and port.isdecimal() and int(port) < 1 << 16:
        return Readiness(tcp=(host.strip("[]"), int(port)))
    raise UsageError(
        f"--ready {text} is neither a URL nor HOST:PORT",
        hint="for Cog: --ready http://127.0.0.1:5000/health-check",
    )


class State(enum.Enum):
    """What a server says about itself."""

    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"  # and will never be ready


def judge(code: int, body: bytes) -> State:
    """Read an HTTP answer: ``code``, and the body if it is JSON (else empty).

    2xx is ready, unless a JSON object's ``status`` says that it is not, or never will be.
    """
    try:
        answer = json.loads(body)
        status = str(answer.get("status", "")).lower()
    except (ValueError, RecursionError, AttributeError):
        status = ""
    if status in _FAILED:
        return State.FAILED
    return State.READY if 200 <= code < 300 and status not in _NOT_YET else State.STARTING


def ask(readiness: Readiness, up_s: float) -> State:
    """Ask a server that has been up for ``up_s``; blocks for some seconds at most, unless its answer trickles."""
    if readiness.url is not None:
        return _ask_url(readiness.url)
    if readiness.tcp is not None:
        return _ask_tcp(readiness.tcp)
    return State.READY if up_s >= ASSUMED_READY_S else State.STARTING


def _ask_tcp(address: tuple[str, int]) -> State:
    import socket  # noqa: PLC0415 - as below

    try:
        socket.create_connection(address, _ANSWER_TIMEOUT_S).close()
    except OSError:
        return State.STARTING
    return State.READY


def _ask_url(url: str) -> State:
    # Only once the server has been started: this is slow to import.
    import http.client  # noqa: PLC0415
    import ssl  # noqa: PLC0415
    from urllib.parse import urlsplit  # noqa: PLC0415

    parts = urlsplit(url)
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(parts.netloc, timeout=_ANSWER_TIMEOUT_S, context=trusting)
    else:
        connection = http.client.HTTPConnection(parts.netloc, timeout=_ANSWER_TIMEOUT_S)
    try:
        connection.request("GET", f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}")
        reply = connection.getresponse()
        is_json = "json" in reply.headers.get("Content-Type", "")
        return judge(reply.status, reply.read(_MAX_ANSWER_BYTES) if is_json else b"")
    except (OSError, http.client.HTTPException):
        return State.STARTING
    finally:
        connection.close()
