import pytest

from glowplug.core.reference import (
    LayoutRepository,
    Reference,
    RegistryRepository,
    is_digest,
    is_tag,
    parse_reference,
    parse_repository,
)
from glowplug.errors import UsageError

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "repository", "tag", "digest"),
    [
        ("ghcr.io/acme/flux-cache:v3", RegistryRepository("ghcr.io", "acme/flux-cache"), "v3", None),
        ("ghcr.io/a:V_3.x-rc1", RegistryRepository("ghcr.io", "a"), "V_3.x-rc1", None),
        ("localhost/x:v1", RegistryRepository("localhost", "x"), "v1", None),
        ("localhost:5000/a/b/c:v1", RegistryRepository("localhost:5000", "a/b/c"), "v1", None),
        ("registry:5000/x:v1", RegistryRepository("registry:5000", "x"), "v1", None),
        ("127.0.0.1:5000/x:v1", RegistryRepository("127.0.0.1:5000", "x"), "v1", None),
        ("[::1]:5000/x:v1", RegistryRepository("[::1]:5000", "x"), "v1", None),
        ("[2001:db8::1]/x:v1", RegistryRepository("[2001:db8::1]", "x"), "v1", None),
        ("r.io/a__b/c.d/e---f:v1", RegistryRepository("r.io", "a__b/c.d/e---f"), "v1", None),
        (f"ghcr.io/x@{DIGEST}", RegistryRepository("ghcr.io", "x"), None, DIGEST),
        (f"ghcr.io/x:v1@{DIGEST}", RegistryRepository("ghcr.io", "x"), "v1", DIGEST),
        ("oci:cache:v1", LayoutRepository("cache"), "v1", None),
        ("oci:./build/cache:v1", LayoutRepository("./build/cache"), "v1", None),
        ("oci:/a:b/c:v1", LayoutRepository("/a:b/c"), "v1", None),
        ("oci:/a:b:v1", LayoutRepository("/a:b"), "v1", None),
        ("oci:/with space/é:v1", LayoutRepository("/with space/é"), "v1", None),
        (f"oci:/a:b/c@{DIGEST}", LayoutRepository("/a:b/c"), None, DIGEST),
        (f"oci:cache:v1@{DIGEST}", LayoutRepository("cache"), "v1", DIGEST),
        (f"oci:/team@work/cache:v1@{DIGEST}", LayoutRepository("/team@work/cache"), "v1", DIGEST),
        ("oci:/team@work/cache:v1", LayoutRepository("/team@work/cache"), "v1", None),
    ],
)
def test_a_reference_is_read_and_written(text, repository, tag, digest):
    reference = parse_reference(text)
    assert reference == Reference(repository, tag, digest)
    assert str(reference) == text
    assert reference.selector == (digest or tag)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "v1",
        ":v1",
        "/x:v1",
        "flux-cache:v1",
        "acme/flux-cache:v1",  # Docker would add docker.io; a typo must not ask another registry
        "ghcr.io",
        "ghcr.io/",
        "ghcr.io/:v1",
        "ghcr.io/x:",
        "ghcr.io/x:-v1",
        "ghcr.io/x:v1:v2",
        "ghcr.io/x:" + "v" * 129,
        "ghcr.io/Acme/x:v1",
        "ghcr.io/a//b:v1",
        "ghcr.io/a/../b:v1",
        "ghcr.io/a_/b:v1",
        "ghcr.io/x:v1\n",
        "ghcr.io /x:v1",
        "user@ghcr.io/x:v1",
        "https://ghcr.io/x:v1",
        "ghcr.io:port/x:v1",
        "ghcr.io:123456/x:v1",
        "[::1/x:v1",
        "-ghcr.io/x:v1",
        "ghcr.io/x@sha256:abc",
        f"ghcr.io/x@{DIGEST}0",
        f"ghcr.io/x@{DIGEST.upper()}",
        f"ghcr.io/x@{DIGEST}:v1",
        "ghcr.io/x@sha512:" + "0" * 128,
        "oci:",
        "oci::v1",
        "oci:cache:no good",
        f"oci:cache:v1@{DIGEST[:-1]}",
        f"oci:@{DIGEST}",
    ],
)
@pytest.mark.parametrize("parse", [parse_reference, parse_repository])
def test_what_is_no_reference(parse, text):
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert caught.value.hint


@pytest.mark.parametrize(
    "text", ["ghcr.io/acme/x", "localhost:5000/x", "oci:cache", "oci:/a:b/c", "oci:cache:"]
)
def test_a_repository_is_no_reference(text):
    with pytest.raises(UsageError, match="names a repository, not an artifact"):
        parse_reference(text)
    assert str(parse_repository(text)) == text.removesuffix(":")


@pytest.mark.parametrize(
    "text", ["ghcr.io/x:v1", f"ghcr.io/x@{DIGEST}", "oci:cache:v1", f"oci:cache@{DIGEST}"]
)
def test_a_reference_is_no_repository(text):
    with pytest.raises(UsageError, match="carries a tag or a digest") as caught:
        parse_repository(text)
    assert text.partition("@")[0].removesuffix(":v1") in caught.value.hint


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("localhost:5000", True),
        ("127.0.0.1", True),
        ("127.8.9.10:5000", True),
        ("[::1]", True),
        ("[::1]:5000", True),
        ("localhost.example.org", False),
        ("127.0.0.1.example.org", False),
        ("example.org:127", False),
        ("10.0.0.1:5000", False),
        ("[::2]:5000", False),
        ("registry:5000", False),
    ],
)
def test_plain_http_is_for_this_machine(host, loopback):
    assert RegistryRepository(host, "x").is_loopback is loopback


def test_a_reference_without_tag_and_digest_selects_nothing():
    with pytest.raises(UsageError, match=r"ghcr\.io/x names a repository"):
        _ = Reference(RegistryRepository("ghcr.io", "x")).selector


def test_tags_and_digests():
    assert [text for text in ("v1", "_", "v" * 128, "A.b-c_d") if not is_tag(text)] == []
    assert [text for text in ("", ".v", "-v", "v" * 129, "v/1", "v 1", "v1\n", "é") if is_tag(text)] == []
    assert is_digest(DIGEST)
    bad = (DIGEST[:-1], DIGEST + "0", DIGEST.upper(), DIGEST.removeprefix("sha256:"), DIGEST + "\n", "")
    assert [text for text in bad if is_digest(text)] == []
