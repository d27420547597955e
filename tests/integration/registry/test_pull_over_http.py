"""Pulling from servers that misbehave."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

import pytest

from glowplug.core.oci import LAYER_TYPE, MANIFEST_TYPE, Descriptor, digest_of, encode
from glowplug.core.reference import RegistryRepository
from glowplug.errors import DeniedError, GlowplugError, IntegrityError, NotFoundError, UnavailableError
from glowplug.registry.options import Options
from glowplug.registry.source import open_source, read_blob
from integration.registry.scripted import Answer, Request, Serve
from integration.services import free_port

BLOB = bytes(range(256)) * 40
DESCRIPTOR = Descriptor(LAYER_TYPE, digest_of(BLOB), len(BLOB))
DOCUMENT = encode({"schemaVersion": 2, "mediaType": MANIFEST_TYPE})
JSON = {"Content-Type": "application/json"}
IMPATIENT = Options(timeout_s=0.5)


def manifest(raw: bytes = DOCUMENT, **headers: str) -> Answer:
    return Answer(
        200, raw, {"Content-Type": MANIFEST_TYPE, **{k.replace("_", "-"): v for k, v in headers.items()}}
    )


def read(repository: RegistryRepository, options: Options = Options()) -> bytes:  # noqa: B008
    with open_source(repository, options) as source:
        return read_blob(source, DESCRIPTOR)


def resolve(repository: RegistryRepository, selector: str = "v1", options: Options = Options()) -> bytes:  # noqa: B008
    with open_source(repository, options) as source:
        return source.resolve(selector).raw


def in_turn(*answers: Answer) -> Callable[[Request], Answer]:
    """Give these answers one after another, the last one for ever."""
    left = list(answers)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def test_a_redirect_leads_elsewhere_without_our_credentials(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOWPLUG_USERNAME", "robot")
    monkeypatch.setenv("GLOWPLUG_PASSWORD", "secret")
    storage = serve(lambda _: Answer(200, BLOB))

    def registry(request: Request) -> Answer:
        if "authorization" not in request.headers:
            return Answer(401, headers={"WWW-Authenticate": 'Basic realm="x"'})
        return Answer(307, headers={"Location": f"http://{storage.host}/bucket/blob?signed=1"})

    script = serve(registry)
    assert read(script.repository()) == BLOB
    assert script.authorizations == [None, "Basic cm9ib3Q6c2VjcmV0"]
    assert [r.path for r in storage.requests] == ["/bucket/blob?signed=1"]
    assert storage.authorizations == [None]


def test_a_relative_redirect_stays_with_the_registry(serve: Serve) -> None:
    script = serve(
        lambda request: (
            Answer(200, BLOB)
            if request.path == "/elsewhere"
            else Answer(302, headers={"Location": "/elsewhere"})
        )
    )
    assert read(script.repository()) == BLOB


def test_redirects_in_circles_end(serve: Serve) -> None:
    script = serve(lambda request: Answer(307, headers={"Location": request.path}))
    with pytest.raises(UnavailableError, match="circles"):
        read(script.repository())


@pytest.mark.parametrize("location", ["http://[::1", "http://127.0.0.1:port/", "http://127.0.0.1:99999/x"])
def test_a_redirect_to_nowhere(serve: Serve, location: str) -> None:
    script = serve(lambda _: Answer(307, headers={"Location": location}))
    with pytest.raises(UnavailableError, match="no URL"):
        read(script.repository())


def test_a_redirect_to_plain_http_elsewhere_is_refused(serve: Serve) -> None:
    script = serve(lambda _: Answer(307, headers={"Location": "http://storage.example/blob"}))
    with pytest.raises(DeniedError, match=r"storage\.example would not be encrypted"):
        read(script.repository())


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_registry_is_asked_again(serve: Serve, status: int) -> None:
    script = serve(in_turn(Answer(status, headers={"Retry-After": "0"}), manifest()))
    assert resolve(script.repository()) == DOCUMENT
    assert len(script.requests) == 2


def test_a_registry_that_stays_busy_is_given_up(serve: Serve) -> None:
    script = serve(lambda _: Answer(503))
    with pytest.raises(UnavailableError, match="answers 503"):
        resolve(script.repository(), options=Options(retries=2))
    assert len(script.requests) == 3


def test_a_retry_after_of_minutes_is_not_waited_for(serve: Serve) -> None:
    script = serve(lambda _: Answer(429, headers={"Retry-After": "3600"}))
    with pytest.raises(UnavailableError, match="answers 429"):
        resolve(script.repository())
    assert len(script.requests) == 1


def test_a_broken_connection_is_resumed_where_it_broke(serve: Serve) -> None:
    def decide(request: Request) -> Answer:
        if "range" not in request.headers:
            return Answer(200, BLOB, cut_after=4000)
        start = int(request.headers["range"].removeprefix("bytes=").removesuffix("-"))
        span = f"bytes {start}-{len(BLOB) - 1}/{len(BLOB)}"
        return Answer(206, BLOB[start:], {"Content-Range": span})

    script = serve(decide)
    assert read(script.repository()) == BLOB
    assert [r.headers.get("range") for r in script.requests] == [None, "bytes=4000-"]


def test_a_server_without_ranges_starts_over(serve: Serve) -> None:
    script = serve(in_turn(Answer(200, BLOB, cut_after=4000), Answer(200, BLOB)))
    assert read(script.repository()) == BLOB
    assert len(script.requests) == 2


def test_a_connection_that_always_breaks_is_given_up(serve: Serve) -> None:
    script = serve(lambda _: Answer(200, BLOB, cut_after=100))
    with pytest.raises(UnavailableError):
        read(script.repository(), Options(retries=2))
    assert len(script.requests) == 3


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (BLOB[:-1], f"ended after {len(BLOB) - 1} of {len(BLOB)}"),
        (BLOB + b"!", "longer than"),
        (b"!" + BLOB[1:], "holds other bytes"),
        (b"", "ended after 0"),
    ],
)
def test_a_body_that_is_not_the_blob(serve: Serve, body: bytes, complaint: str) -> None:
    script = serve(lambda _: Answer(200, body))
    with pytest.raises(IntegrityError, match=complaint):
        read(script.repository())


def test_bytes_past_the_promised_size_are_not_passed_on(serve: Serve) -> None:
    script = serve(lambda _: Answer(200, BLOB * 100))
    received = BytesIO()
    with open_source(script.repository()) as source, pytest.raises(IntegrityError):
        source.copy_blob(DESCRIPTOR, received)
    assert len(received.getvalue()) <= len(BLOB)


@pytest.mark.parametrize("cut_after", [None, 10])
def test_the_time_budget_ends_a_silent_server(serve: Serve, cut_after: int | None) -> None:
    first = Answer(hang=True) if cut_after is None else Answer(200, BLOB, cut_after=cut_after)
    script = serve(in_turn(first, Answer(hang=True)))
    with pytest.raises(UnavailableError, match=r"within 0.5 s|in time"):
        read(script.repository(), IMPATIENT)


def test_a_dead_port(monkeypatch: pytest.MonkeyPatch) -> None:
    repository = RegistryRepository(f"127.0.0.1:{free_port()}", "acme/cache")
    with pytest.raises(UnavailableError, match=f"cannot talk to {repository.host}: Connection refused"):
        resolve(repository)


def test_a_proxy_is_used_but_not_for_this_machine(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, script = serve(lambda _: manifest()), serve(lambda _: manifest())
    monkeypatch.setenv("http_proxy", f"http://robot:s%40@{proxy.host}")
    monkeypatch.setenv("no_proxy", "inside.example")
    resolve(RegistryRepository("registry.example", "acme/cache"), options=Options(plain_http=True))
    resolve(script.repository())
    with pytest.raises(UnavailableError):
        resolve(RegistryRepository("inside.example", "x"), options=Options(plain_http=True, retries=0))
    assert [r.path for r in proxy.requests] == ["http://registry.example/v2/acme/cache/manifests/v1"]
    assert proxy.requests[0].headers["proxy-authorization"] == "Basic cm9ib3Q6c0A="
    assert len(script.requests) == 1


def test_https_to_a_server_without_it(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    script = serve(lambda _: manifest())
    monkeypatch.setattr(RegistryRepository, "is_loopback", property(lambda _: False))
    with pytest.raises(UnavailableError, match="cannot trust"):
        resolve(script.repository())
    assert resolve(script.repository(), options=Options(plain_http=True)) == DOCUMENT


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(403, b'{"errors":[{"code":"DENIED","message":"no\\u0007 way"}]}', JSON), DeniedError),
        (Answer(404, b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}', JSON), NotFoundError),
        (Answer(404, b"<html>", {"Content-Type": "text/html"}), UnavailableError),
        (Answer(500, b"oops"), UnavailableError),
        (Answer(400, b"[]", JSON), UnavailableError),
        (Answer(401), DeniedError),
        (Answer(401, headers={"WWW-Authenticate": "Negotiate"}), DeniedError),
        (Answer(401, headers={"WWW-Authenticate": 'Basic realm="x"'}), DeniedError),
        (Answer(200, b"<html>welcome</html>", {"Content-Type": "text/html"}), UnavailableError),
        (Answer(200, DOCUMENT, JSON), UnavailableError),
    ],
)
def test_refusals(serve: Serve, answer: Answer, error: type[GlowplugError]) -> None:
    script = serve(lambda _: answer)
    with pytest.raises(GlowplugError) as caught:
        resolve(script.repository())
    assert isinstance(caught.value, error)
    assert str(caught.value).isprintable()


def test_a_manifest_must_match_its_digest(serve: Serve) -> None:
    script = serve(lambda _: manifest(b'{"schemaVersion":2}'))
    with pytest.raises(IntegrityError, match=digest_of(DOCUMENT)):
        resolve(script.repository(), digest_of(DOCUMENT))


def test_a_tagged_manifest_must_match_the_digest_that_the_registry_states(serve: Serve) -> None:
    script = serve(lambda _: manifest(Docker_Content_Digest=digest_of(b"other")))
    with pytest.raises(IntegrityError, match=digest_of(DOCUMENT)):
        resolve(script.repository())
    honest = serve(lambda _: manifest(Docker_Content_Digest=digest_of(DOCUMENT)))
    assert resolve(honest.repository()) == DOCUMENT


def test_an_endless_manifest_is_cut_off(serve: Serve) -> None:
    script = serve(lambda _: manifest(b" " * (5 * 1024 * 1024)))
    with pytest.raises(IntegrityError, match="more than"):
        resolve(script.repository())


def test_tags_come_in_pages(serve: Serve) -> None:
    def decide(request: Request) -> Answer:
        if "last=b" in request.path:
            return Answer(200, b'{"name":"x","tags":["c"]}', JSON)
        link = {"Link": '</v2/acme/cache/tags/list?last=b&n=2>; rel="next"'}
        return Answer(200, b'{"name":"x","tags":["b","a"]}', JSON | link)

    script = serve(decide)
    with open_source(script.repository()) as source:
        assert source.tags() == ["a", "b", "c"]
    assert len(script.requests) == 2


def test_tags_of_a_repository_without_any(serve: Serve) -> None:
    script = serve(lambda _: Answer(200, b'{"name":"x","tags":null}', JSON))
    with open_source(script.repository()) as source:
        assert source.tags() == []


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"tags":[1]}', b'{"tags":["../x"]}', b'{"tags":"a"}'])
def test_a_tag_list_that_is_none(serve: Serve, body: bytes) -> None:
    script = serve(lambda _: Answer(200, body, {"Content-Type": "text/html"}))
    with open_source(script.repository()) as source, pytest.raises(UnavailableError, match="no registry"):
        source.tags()
