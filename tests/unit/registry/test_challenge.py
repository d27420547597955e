from __future__ import annotations

from urllib.parse import parse_qs

import pytest

from glowplug.errors import DeniedError
from glowplug.registry.challenge import (
    DEFAULT_LIFE_S,
    Challenge,
    parse_challenges,
    read_token,
    scope_to_ask,
    token_request,
)
from glowplug.registry.credentials import Credential

BEARER = Challenge("bearer", {"realm": "https://auth.example/token", "service": "r.example"})


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('Basic realm="tests"', [("basic", {"realm": "tests"})]),
        (
            'Bearer realm="https://a/t",service="s",scope="repository:x/y:pull,push"',
            [("bearer", {"realm": "https://a/t", "service": "s", "scope": "repository:x/y:pull,push"})],
        ),
        ("BEARER Realm = https , error=x", [("bearer", {"realm": "https", "error": "x"})]),
        ('Basic realm="a, b", Bearer realm="c"', [("basic", {"realm": "a, b"}), ("bearer", {"realm": "c"})]),
        ('Basic realm="a \\"b\\""', [("basic", {"realm": 'a "b"'})]),
        ("Negotiate, Basic realm=x", [("negotiate", {}), ("basic", {"realm": "x"})]),
        ("", []),
        ('realm="no scheme"', []),
        ('Basic realm="never closed', [("basic", {})]),
    ],
)
def test_parse_challenges(header: str, expected: list[tuple[str, dict[str, str]]]) -> None:
    assert [(c.scheme, dict(c.parameters)) for c in parse_challenges(header)] == expected


@pytest.mark.parametrize(
    ("offered", "wanted", "asked"),
    [
        ("repository:x/y:pull", "repository:x/y:pull,push", "repository:x/y:pull,push"),
        ("repository:x/y:delete,pull", "repository:x/y:pull", "repository:x/y:delete,pull"),
        ("", "repository:x/y:pull", "repository:x/y:pull"),
        ("registry:catalog:*", "repository:x/y:pull", "registry:catalog:*"),
        ("repository:other:pull", "repository:x/y:pull,push", "repository:other:pull"),
    ],
)
def test_scope_to_ask(offered: str, wanted: str, asked: str) -> None:
    assert scope_to_ask(offered, wanted) == asked


def test_a_password_asks_with_get() -> None:
    request = token_request(BEARER, "repository:x:pull", Credential("robot", "secret"))
    assert request.method == "GET"
    url, _, query = request.url.partition("?")
    assert url == "https://auth.example/token"
    assert parse_qs(query) == {"service": ["r.example"], "scope": ["repository:x:pull"], "account": ["robot"]}
    assert request.headers == {"Authorization": "Basic cm9ib3Q6c2VjcmV0"}
    assert "secret" not in request.url


def test_an_identity_token_asks_with_post() -> None:
    request = token_request(BEARER, "repository:x:pull", Credential("", identity_token="refresh me"))
    assert (request.method, request.url) == ("POST", "https://auth.example/token")
    assert parse_qs((request.body or b"").decode()) == {
        "grant_type": ["refresh_token"],
        "client_id": ["glowplug"],
        "refresh_token": ["refresh me"],
        "service": ["r.example"],
        "scope": ["repository:x:pull"],
    }
    assert "Authorization" not in request.headers


def test_nobody_asks_without_a_header_and_keeps_the_realms_query() -> None:
    request = token_request(Challenge("bearer", {"realm": "https://a/t?k=1"}), "repository:x:pull", None)
    assert request.url == "https://a/t?k=1&scope=repository%3Ax%3Apull"
    assert request.headers == {}


def test_a_challenge_without_a_realm() -> None:
    with pytest.raises(DeniedError, match="where to get one"):
        token_request(Challenge("bearer"), "repository:x:pull", None)


def test_read_token() -> None:
    token = read_token({"access_token": "t", "expires_in": 300}, now=1000.0)
    assert token is not None
    assert token.value == "t"
    assert 1000.0 < token.expires_at < 1300.0
    assert "'t'" not in repr(token)
    unstated = read_token({"token": "t"}, now=0.0)
    assert unstated is not None
    assert 0.0 < unstated.expires_at < DEFAULT_LIFE_S


@pytest.mark.parametrize("answer", [{}, {"token": ""}, {"token": 1}, {"access_token": None}])
def test_an_answer_without_a_token(answer: dict[str, object]) -> None:
    assert read_token(answer, now=0.0) is None
