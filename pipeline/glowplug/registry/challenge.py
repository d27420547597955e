"""The two ways in which a registry asks for credentials, as pure functions.

``WWW-Authenticate`` grammar: RFC 9110, 11.3 and 11.6.1. Token requests and answers: the distribution
project's "Token Authentication Specification" (GET) and "OAuth2 Token Authentication" (POST).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from glowplug.errors import DeniedError
from glowplug.registry.credentials import Credential

# The specification's default life of a token that does not say.
DEFAULT_LIFE_S = 60.0
# A token must outlive the request that it is sent with.
_MARGIN_S = 5.0
_CLIENT_ID = "glowplug"

_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_ITEM = re.compile(
    rf"""[\s,]*(?:
        (?P<key>{_WORD})\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>{_WORD}))
      | (?P<scheme>{_WORD})(?=\s|,|$)
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Challenge:
    """One way to authenticate: a lower-case scheme, and its parameters under lower-case names."""

    scheme: str
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TokenRequest:
    """An HTTP request for a token."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None


@dataclass(frozen=True)
class Token:
    """A bearer token; ``expires_at`` is on the clock that was used to read it."""

    value: str = field(repr=False)
    expires_at: float


def parse_challenges(header: str) -> list[Challenge]:
    """Read a ``WWW-Authenticate`` header, or several joined by commas; what cannot be read ends the list."""
    found: list[tuple[str, dict[str, str]]] = []
    position = 0
    while match := _ITEM.match(header, position):
        position = match.end()
        if match["scheme"]:
            found.append((match["scheme"].lower(), {}))
        elif found:
            value = match["plain"] if match["quoted"] is None else re.sub(r"\\(.)", r"\1", match["quoted"])
            found[-1][1][match["key"].lower()] = value
    return [Challenge(scheme, parameters) for scheme, parameters in found]


def scope_to_ask(offered: str, wanted: str) -> str:
    """Return the scope to ask for: the one ``offered`` by the challenge, with the actions that will follow.

    A registry challenges a push's first request, which only looks, with ``pull``; asking for ``pull,push`` at
    once saves a second token.
    """
    resource, _, actions = offered.rpartition(":")
    wanted_resource, _, wanted_actions = wanted.rpartition(":")
    if offered and resource != wanted_resource:
        return offered
    return f"{wanted_resource}:{','.join(sorted({*actions.split(','), *wanted_actions.split(',')} - {''}))}"


def token_request(challenge: Challenge, scope: str, credential: Credential | None) -> TokenRequest:
    """Build the request that exchanges a credential, or nothing, for a token.

    Raises:
        DeniedError: the challenge names no place to ask.
    """
    realm = challenge.parameters.get("realm", "")
    if not realm:
        raise DeniedError("the registry asks for a token, but does not say where to get one")
    asked = {"service": challenge.parameters.get("service", ""), "scope": scope}
    fields = {name: value for name, value in asked.items() if value}
    if credential is not None and credential.identity_token:
        form = {
            "grant_type": "refresh_token",
            "client_id": _CLIENT_ID,
            "refresh_token": credential.identity_token,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return TokenRequest("POST", realm, headers, urlencode(form | fields).encode())
    headers = {}
    if credential is not None:
        headers = {"Authorization": basic(credential)}
        fields["account"] = credential.username
    return TokenRequest("GET", f"{realm}{'&' if '?' in realm else '?'}{urlencode(fields)}", headers, None)


def read_token(answer: Mapping[str, object], now: float) -> Token | None:
    """Read a token server's answer, received at ``now``; ``None`` when it holds no token."""
    value = answer.get("token") or answer.get("access_token")
    life = answer.get("expires_in")
    life_s = float(life) if isinstance(life, int | float) and life > 0 else DEFAULT_LIFE_S
    return Token(value, now + life_s - _MARGIN_S) if isinstance(value, str) else None


def basic(credential: Credential) -> str:
    """Return the value of a Basic ``Authorization`` header (RFC 7617)."""
    pair = f"{credential.username}:{credential.password}".encode()
    return "Basic " + base64.b64encode(pair).decode("ascii")
