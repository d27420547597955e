"""A loopback HTTP server that answers as a test says, for what a real registry cannot be made to do."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from glowplug.core.reference import RegistryRepository


@dataclass(frozen=True)
class Request:
    """What arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """What is sent back; ``cut_after`` hangs up after so many body bytes, ``hang`` never answers."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    hang: bool = False


@dataclass
class Script:
    """A running server: its host, and what it was asked."""

    host: str
    requests: list[Request]

    def repository(self, name: str = "acme/cache") -> RegistryRepository:
        return RegistryRepository(self.host, name)

    @property
    def authorizations(self) -> list[str | None]:
        return [request.headers.get("authorization") for request in self.requests]


class Serve(Protocol):
    """Starts a server."""

    def __call__(self, decide: Callable[[Request], Answer], tls: ssl.SSLContext | None = None) -> Script: ...
