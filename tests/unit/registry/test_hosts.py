"""Where requests go, and how long they wait there."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from glowplug.core.reference import RegistryRepository
from glowplug.errors import UnavailableError
from glowplug.registry.client import RegistrySource
from glowplug.registry.options import Deadline, Options
from glowplug.registry.publish import _OrasRegistry
from glowplug.registry.retry import TransientError
from glowplug.registry.transport import Transport, follow, origin_of


@pytest.mark.parametrize(
    ("repository", "options", "url"),
    [
        (RegistryRepository("ghcr.io", "acme/x"), Options(), "https://ghcr.io/v2/acme/x"),
        (RegistryRepository("docker.io", "acme/x"), Options(), "https://registry-1.docker.io/v2/acme/x"),
        (RegistryRepository("localhost", "x"), Options(), "http://localhost/v2/x"),
        (RegistryRepository("127.0.0.1:5000", "x"), Options(), "http://127.0.0.1:5000/v2/x"),
        (RegistryRepository("10.0.0.1:5000", "x"), Options(), "https://10.0.0.1:5000/v2/x"),
        (RegistryRepository("10.0.0.1:5000", "x"), Options(plain_http=True), "http://10.0.0.1:5000/v2/x"),
        (RegistryRepository("localhost", "evil.example/x"), Options(), "http://localhost/v2/evil.example/x"),
    ],
)
def test_reading_and_writing_go_to_the_same_place(
    repository: RegistryRepository, options: Options, url: str
) -> None:
    source = RegistrySource(repository, options)
    registry = _OrasRegistry(source)
    uploads = registry.container_of(repository).upload_blob_url()
    assert f"{registry.prefix}://{uploads}" == f"{url}/blobs/uploads/"
    assert source.is_own(f"{url}/manifests/v1")


def test_a_host_that_only_starts_alike_is_another_one() -> None:
    assert not RegistrySource(RegistryRepository("ghcr.io", "x"), Options()).is_own(
        "https://ghcr.io.evil.example/"
    )


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("https://ghcr.io", "https://GHCR.io:443/v2/", True),
        ("https://ghcr.io", "http://ghcr.io/v2/", False),
        ("https://ghcr.io", "https://ghcr.io:8443/", False),
        ("https://ghcr.io", "https://ghcr.io.evil.example/", False),
        ("https://ghcr.io", "https://evil.example/?ghcr.io", False),
        ("https://ghcr.io", "https://ghcr.io@evil.example/", False),
    ],
)
def test_origins(left: str, right: str, same: bool) -> None:  # noqa: FBT001
    assert (origin_of(left) == origin_of(right)) is same


def test_follow() -> None:
    assert follow("https://r.example/v2/x", "/y?z=1") == "https://r.example/y?z=1"
    assert follow("https://r.example/v2/x", "https://s.example/y") == "https://s.example/y"


@pytest.mark.parametrize("target", ["http://[::1", "http://host:port/", "https://host:99999/"])
def test_follow_to_nowhere(target: str) -> None:
    with pytest.raises(UnavailableError, match=r"r\.example refers to"):
        follow("https://r.example/v2/x", target)


class Trickle:
    """A response that always has one more byte, and a socket that notes how long it may wait."""

    def __init__(self) -> None:
        self.timeouts_s: list[float] = []
        self.connection = SimpleNamespace(sock=SimpleNamespace(settimeout=self.timeouts_s.append))

    def read1(self, _: int) -> bytes:
        return b"."


def test_a_trickle_meets_the_deadline() -> None:
    now = [0.0]
    transport = Transport(Options(read_timeout_s=4.0), Deadline(10.0, lambda: now[0]))
    response: Any = Trickle()
    for now[0] in (0.0, 5.0, 9.0):
        assert transport.read(response, "https://r.example/") == b"."
    assert response.timeouts_s == [4.0, 4.0, 1.0]
    now[0] = 10.0
    with pytest.raises(UnavailableError, match=r"reading from r\.example did not finish within 10 s"):
        transport.read(response, "https://r.example/")


def test_a_name_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, _: asked.append(host))
    transport = Transport(Options(), Deadline(None))
    for _ in range(2):
        transport._await_name("r.example", 60.0)
    assert asked == ["r.example"]


def test_a_silent_name_server_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: over.wait(60))
    with pytest.raises(TransientError, match=r"r\.example: the name does not resolve in time"):
        Transport(Options(connect_timeout_s=0.01), Deadline(None)).send("GET", "https://r.example/", {})
    with pytest.raises(UnavailableError, match=r"looking up r\.example did not finish within 0\.01 s"):
        Transport(Options(), Deadline(0.01)).send("GET", "https://r.example/", {})
    over.set()


def test_a_name_that_does_not_exist_is_the_request_s_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(TransientError, match=r"cannot talk to r\.example: Name or service not known"):
        Transport(Options(plain_http=True), Deadline(None)).send("GET", "http://r.example/", {})
