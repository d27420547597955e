"""Answers a registry's challenges, and remembers the answer while it holds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from glowplug.core.reference import RegistryRepository
from glowplug.errors import DeniedError
from glowplug.registry.challenge import (
    Challenge,
    TokenRequest,
    basic,
    parse_challenges,
    read_token,
    scope_to_ask,
    token_request,
)
from glowplug.registry.credentials import Credential
from glowplug.registry.replies import LOGIN_HINT

T = TypeVar("T")


class Authorizer:
    """The ``Authorization`` header for one repository and one set of actions (``pull`` or ``pull,push``).

    One token at a time is enough: every request of one opened repository has the same scope.
    """

    def __init__(
        self,
        repository: RegistryRepository,
        actions: str,
        find: Callable[[], Credential | None],
        fetch: Callable[[TokenRequest], Mapping[str, object]],
    ) -> None:
        self._host = repository.host
        self._scope = f"repository:{repository.name}:{actions}"
        self._find = find
        self._fetch = fetch
        self._lock = threading.Lock()
        self._header = ""
        self._expires_at = 0.0

    def authorized(self, send: Callable[[dict[str, str]], T], challenge_in: Callable[[T], str | None]) -> T:
        """Send a request with the header that is known to work; if challenged, once more with a new one.

        Args:
            send: sends the request with these headers added.
            challenge_in: returns the ``WWW-Authenticate`` header of a 401, and ``None`` for another reply.

        Raises:
            DeniedError: there is no way to answer the challenge, or the token server refuses.
            UnavailableError: the token server cannot be reached.
        """
        header = self._current()
        reply = send(_headers(header))
        challenge = challenge_in(reply)
        if challenge is None:
            return reply
        return send(_headers(self._answer(challenge, rejected=header)))

    def _current(self) -> str:
        return self._header if time.monotonic() < self._expires_at else ""

    def _answer(self, challenge: str, rejected: str) -> str:
        with self._lock:
            # Another thread may have been challenged by the same expiry, and be done already.
            if (current := self._current()) and current != rejected:
                return current
            offered = {c.scheme: c for c in reversed(parse_challenges(challenge))}
            if "bearer" in offered:
                self._header, self._expires_at = self._bearer(offered["bearer"])
            elif "basic" in offered:
                self._header, self._expires_at = self._basic(), float("inf")
            else:
                raise DeniedError(
                    f"{self._host} asks for a way to authenticate that is neither Bearer nor Basic"
                )
            return self._header

    def _bearer(self, challenge: Challenge) -> tuple[str, float]:
        scope = scope_to_ask(challenge.parameters.get("scope", ""), self._scope)
        answer = self._fetch(token_request(challenge, scope, self._find()))
        token = read_token(answer, time.monotonic())
        if token is None:
            raise DeniedError(f"the token server of {self._host} gives no token", hint=LOGIN_HINT)
        return f"Bearer {token.value}", token.expires_at

    def _basic(self) -> str:
        credential = self._find()
        if credential is None:
            raise DeniedError(f"{self._host} wants a user name and a password", hint=LOGIN_HINT)
        return basic(credential)


def _headers(authorization: str) -> dict[str, str]:
    return {"Authorization": authorization} if authorization else {}
