"""A proxy in front of a real registry that breaks the requests it is told to break, each in one way.

A ``Fault`` is a function that answers one request, with or without the real answer at hand. A ``Rule`` says which
requests it answers; all others are passed on.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ALWAYS = 1_000_000
_HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "date", "server"}
_DRIP_S = 0.2
_LONGEST_S = 60.0


@dataclass(frozen=True)
class Request:
    """What arrived; header names are in lower case."""

    path: str
    headers: Mapping[str, str]

    @property
    def authorization(self) -> str | None:
        return self.headers.get("authorization")


@dataclass(frozen=True)
class Response:
    """What the real registry answers, or a fault instead of it."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Exchange:
    """One request that waits for its answer."""

    def __init__(self, handler: BaseHTTPRequestHandler, proxy: Proxy, request: Request) -> None:
        self._handler = handler
        self.proxy = proxy
        self.request = request

    def real(self, *, without: str = "") -> Response:
        """What the registry answers, to the request without one of its headers."""
        connection = http.client.HTTPConnection(self.proxy.upstream, timeout=_LONGEST_S)
        headers = {
            n: v for n, v in self.request.headers.items() if n not in ("host", "authorization", without)
        }
        connection.request("GET", self.request.path, headers=headers)
        answer = connection.getresponse()
        kept = {n: v for n, v in answer.getheaders() if n.lower() not in _HOP_BY_HOP}
        response = Response(answer.status, kept, answer.read())
        connection.close()
        return response

    def send(self, response: Response, *, promised_bytes: int | None = None) -> None:
        """Answer; a ``promised_bytes`` other than the body's length is a lie."""
        length = len(response.body) if promised_bytes is None else promised_bytes
        self._handler.send_response(response.status)
        for name, value in {**response.headers, "Content-Length": str(length)}.items():
            self._handler.send_header(name, value)
        self._handler.end_headers()
        self.write(response.body)
        if length != len(response.body):
            self.close()

    def write(self, data: bytes) -> None:
        self._handler.wfile.write(data)

    def close(self) -> None:
        """Close the connection as if all had been said."""
        self._handler.close_connection = True

    def reset(self) -> None:
        """Close it by a reset instead, as a crash does."""
        connection = self._handler.connection
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(connection.detach())
        self.close()

    def wait(self) -> None:
        """Say nothing until the proxy stops."""
        self.proxy.over.wait(_LONGEST_S)
        self.close()


Fault = Callable[[Exchange], None]


@dataclass(frozen=True)
class Rule:
    """Which requests are broken: those whose path holds ``part`` (or the path that the proxy knows by that name), the
    first ``times`` of them. Of several rules the first that applies counts."""

    part: str
    fault: Fault
    times: int = ALWAYS


@dataclass
class Proxy:
    """A running proxy: where it is, what is behind it, and what it was asked."""

    upstream: str
    rules: tuple[Rule, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    host: str = ""
    requests: list[Request] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def asked(self, part: str) -> list[Request]:
        """The requests whose path holds ``part``, or what that name stands for."""
        return [request for request in self.requests if self.names.get(part, part) in request.path]

    def fault_for(self, request: Request) -> Fault:
        """Note a request, and say who answers it."""
        with self._lock:
            self.requests.append(request)
            for rule in self.rules:
                asked = self.asked(rule.part)
                if asked and asked[-1] is request and len(asked) <= rule.times:
                    return rule.fault
        return pass_on


@contextmanager
def running(proxy: Proxy, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> Iterator[Proxy]:
    """Run a proxy on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.path, headers)
            proxy.fault_for(request)(Exchange(self, proxy, request))

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((host, 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that hung up
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    proxy.host = f"{host}:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.over.set()
        server.shutdown()
        server.server_close()


def pass_on(exchange: Exchange) -> None:
    exchange.send(exchange.real())


def answers(status: int, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Fault:
    """Answer this instead."""
    return lambda exchange: exchange.send(Response(status, headers or {}, body))


def resets_after(body_bytes: int) -> Fault:
    """Break off after so much of the real body."""

    def fault(exchange: Exchange) -> None:
        response = exchange.real()
        exchange.send(
            Response(response.status, response.headers, response.body[:body_bytes]),
            promised_bytes=len(response.body),
        )
        exchange.reset()

    return fault


def resets(exchange: Exchange) -> None:
    """Break off without a word."""
    exchange.reset()


def truncates(body_bytes: int) -> Fault:
    """End the connection in an orderly way, but too early."""

    def fault(exchange: Exchange) -> None:
        response = exchange.real()
        exchange.send(
            Response(response.status, response.headers, response.body[:body_bytes]),
            promised_bytes=len(response.body),
        )

    return fault


def promises(more_bytes: int) -> Fault:
    """Send the real body under a Content-Length that is too large, or, if negative, so much less of it."""

    def fault(exchange: Exchange) -> None:
        response = exchange.real()
        if more_bytes < 0:
            exchange.send(Response(response.status, response.headers, response.body[:more_bytes]))
        else:
            exchange.send(response, promised_bytes=len(response.body) + more_bytes)

    return fault


def hangs(exchange: Exchange) -> None:
    """Never answer."""
    exchange.wait()


def hangs_after(body_bytes: int) -> Fault:
    """Fall silent in the middle of the real body."""

    def fault(exchange: Exchange) -> None:
        response = exchange.real()
        part = Response(response.status, response.headers, response.body[:body_bytes])
        exchange.send(part, promised_bytes=len(response.body))
        exchange.wait()

    return fault


def drips(exchange: Exchange) -> None:
    """Send the real body byte by byte, never silent for long."""
    response = exchange.real()
    exchange.send(Response(response.status, response.headers), promised_bytes=len(response.body))
    for position in range(len(response.body)):
        exchange.write(response.body[position : position + 1])
        if exchange.proxy.over.wait(_DRIP_S):
            return


def damages(exchange: Exchange) -> None:
    """Send other bytes, as many as there really are."""
    response = exchange.real()
    body = bytearray(response.body)
    body[len(body) // 2] ^= 1
    exchange.send(Response(response.status, response.headers, bytes(body)))


def states(name: str, value: str) -> Fault:
    """Give the real answer with another header."""

    def fault(exchange: Exchange) -> None:
        response = exchange.real()
        exchange.send(Response(response.status, {**response.headers, name: value}, response.body))

    return fault


def ignores_ranges(exchange: Exchange) -> None:
    """Send all of it, whatever part was asked for."""
    exchange.send(exchange.real(without="range"))


def redirects_to_itself(exchange: Exchange) -> None:
    exchange.send(Response(307, {"Location": exchange.request.path}))


def redirects_to(host: str) -> Fault:
    """Send the client to another host for the same path."""
    return lambda exchange: exchange.send(
        Response(307, {"Location": f"http://{host}{exchange.request.path}"})
    )


def wants_tokens(revoked_at: str = "") -> Fault:
    """Serve only who has a token, and be the token server too.

    A token holds the number of requests before it. All tokens stop to be valid with the first request for
    ``revoked_at``.
    """

    def fault(exchange: Exchange) -> None:
        seen = exchange.proxy.requests
        if exchange.request.path.startswith("/token"):
            token = json.dumps({"token": str(len(seen)), "expires_in": 3600}).encode()
            exchange.send(Response(200, {"Content-Type": "application/json"}, token))
            return
        token_number = (exchange.request.authorization or "").removeprefix("Bearer ")
        revoked = exchange.proxy.asked(revoked_at) if revoked_at else []
        valid_from = seen.index(revoked[0]) if revoked else -1
        if token_number.isdecimal() and int(token_number) > valid_from:
            pass_on(exchange)
            return
        challenge = f'Bearer realm="http://{exchange.proxy.host}/token",service="tests"'
        exchange.send(Response(401, {"WWW-Authenticate": challenge}))

    return fault
