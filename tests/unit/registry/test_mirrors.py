"""The list of mirrors."""

from __future__ import annotations

import pytest

from glowplug.core.reference import RegistryRepository
from glowplug.errors import UsageError
from glowplug.registry.mirrors import Mirror, parse_mirrors

REPOSITORY = RegistryRepository("ghcr.io", "acme/cache")


@pytest.mark.parametrize(
    ("text", "mirrors"),
    [
        ("", ()),
        (" , ", ()),
        ("m.example", (Mirror("", "m.example", "", plain_http=False),)),
        ("https://m.example/", (Mirror("", "m.example", "", plain_http=False),)),
        ("http://m:5000", (Mirror("", "m:5000", "", plain_http=True),)),
        ("localhost/hub/x", (Mirror("", "localhost", "hub/x", plain_http=False),)),
        (
            "node:1,ghcr.io=m.example/ghcr  other:5=[::1]:2",
            (
                Mirror("", "node:1", "", plain_http=False),
                Mirror("ghcr.io", "m.example", "ghcr", plain_http=False),
                Mirror("other:5", "[::1]:2", "", plain_http=False),
            ),
        ),
    ],
)
def test_lists(text: str, mirrors: tuple[Mirror, ...]) -> None:
    assert parse_mirrors(text) == mirrors


@pytest.mark.parametrize(
    "entry",
    ["mirror", "http://", "=", "ghcr.io=", "ftp://m.example", "m.example:x", "m.example/A", "oci:folder", "ghcr.io/acme=m.example", "m.example/x:v1", "user:secret@m.example"],
)  # fmt: skip
def test_entries_that_are_none(entry: str) -> None:
    with pytest.raises(UsageError, match="GLOWPLUG_MIRRORS") as caught:
        parse_mirrors(f"good.example,{entry}")
    assert "ghcr.io=mirror.example/ghcr" in caught.value.hint
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("prefix", "name"), [("", "acme/cache"), ("ghcr", "ghcr/acme/cache")])
def test_where_a_mirror_keeps_a_repository(prefix: str, name: str) -> None:
    mirror = Mirror("", "m.example", prefix, plain_http=False)
    assert mirror.repository_of(REPOSITORY) == RegistryRepository("m.example", name)
