"""Pushing to servers that misbehave."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from glowplug.core.oci import MANIFEST_TYPE, Document, digest_of, encode
from glowplug.core.reference import RegistryRepository
from glowplug.errors import DeniedError, IntegrityError, ToolMissingError, UnavailableError
from glowplug.registry.options import Options
from glowplug.registry.sink import open_sink
from integration.registry.artifacts import Connect, MakeArtifact
from integration.registry.scripted import Answer, Request, Serve
from integration.services import RegistryService, free_port

DOCUMENT = Document(MANIFEST_TYPE, encode({"schemaVersion": 2, "mediaType": MANIFEST_TYPE}))


def uploading(*puts: Answer) -> Callable[[Request], Answer]:
    """A registry that lacks every blob and answers uploads in turn, the last answer for ever."""
    left = list(puts)

    def decide(request: Request) -> Answer:
        if request.method == "HEAD":
            return Answer(404)
        if request.method == "POST":
            return Answer(202, headers={"Location": "/upload/1"})
        return left.pop(0) if len(left) > 1 else left[0]

    return decide


def test_an_upload_that_fails_starts_over_with_a_new_session(
    connect: Connect, serve: Serve, make_artifact: MakeArtifact
) -> None:
    script = serve(uploading(Answer(503), Answer(502), Answer(201)))
    descriptor, path = make_artifact().blobs[1]
    with connect(script.repository()) as sink:
        sink.put_blob(descriptor, path)
    assert [r.method for r in script.requests] == ["HEAD"] + ["POST", "PUT"] * 3
    assert script.requests[-1].body == path.read_bytes()


def test_an_upload_whose_answer_breaks_off_starts_over(
    connect: Connect, serve: Serve, make_artifact: MakeArtifact
) -> None:
    script = serve(uploading(Answer(201, b"stored", cut_after=3), Answer(201)))
    descriptor, path = make_artifact().blobs[1]
    with connect(script.repository()) as sink:
        sink.put_blob(descriptor, path)
    assert [r.body for r in script.requests if r.method == "PUT"] == [path.read_bytes()] * 2


def test_a_blob_that_is_there_is_not_sent(
    connect: Connect, registry: RegistryService, own_name: str, make_artifact: MakeArtifact
) -> None:
    descriptor, path = make_artifact(b"sent once").blobs[1]
    with connect(registry.repository(own_name)) as sink:
        sink.put_blob(descriptor, path)
        path.unlink()
        sink.put_blob(descriptor, path)


def test_a_busy_registry_is_asked_again(connect: Connect, serve: Serve) -> None:
    script = serve(uploading(Answer(429, headers={"Retry-After": "0"}), Answer(201)))
    with connect(script.repository()) as sink:
        sink.put_document(DOCUMENT, "v1")
    assert [r.path for r in script.requests] == ["/v2/acme/cache/manifests/v1"] * 2
    assert script.requests[-1].body == DOCUMENT.raw
    assert script.requests[-1].headers["content-type"] == MANIFEST_TYPE


def test_a_registry_that_stored_something_else(
    connect: Connect, serve: Serve, make_artifact: MakeArtifact
) -> None:
    script = serve(uploading(Answer(201, headers={"Docker-Content-Digest": digest_of(b"other")})))
    descriptor, path = make_artifact().blobs[1]
    with connect(script.repository()) as sink:
        with pytest.raises(IntegrityError, match=digest_of(b"other")):
            sink.put_document(DOCUMENT, "v1")
        with pytest.raises(IntegrityError, match=digest_of(b"other")):
            sink.put_blob(descriptor, path)


def test_a_registry_that_read_half_of_what_another_client_stores_again(
    connect: Connect, serve: Serve, make_artifact: MakeArtifact
) -> None:
    half = Answer(400, b'{"errors":[{"code":"DIGEST_INVALID"}]}')
    descriptor, path = make_artifact().blobs[1]
    for push in (
        lambda sink: sink.put_document(DOCUMENT, "v1"),
        lambda sink: sink.put_blob(descriptor, path),
    ):
        script = serve(uploading(half, Answer(201)))
        with connect(script.repository()) as sink:
            push(sink)
        first, second = (request.body for request in script.requests if request.method == "PUT")
        assert first == second != b""


def test_what_is_pushed_follows_no_redirect(
    connect: Connect, serve: Serve, make_artifact: MakeArtifact
) -> None:
    elsewhere = serve(lambda _: Answer(201))
    script = serve(uploading(Answer(307, headers={"Location": f"http://{elsewhere.host}/"})))
    descriptor, path = make_artifact().blobs[1]
    with connect(script.repository()) as sink:
        with pytest.raises(UnavailableError, match="307"):
            sink.put_document(DOCUMENT, "v1")
        with pytest.raises(UnavailableError, match="307"):
            sink.put_blob(descriptor, path)
    assert elsewhere.requests == []


def test_a_blob_may_be_on_another_host_which_gets_no_credentials(
    connect: Connect, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOWPLUG_USERNAME", "robot")
    monkeypatch.setenv("GLOWPLUG_PASSWORD", "secret")
    storage = serve(lambda request: Answer(404 if "absent" in request.path else 200))

    def decide(request: Request) -> Answer:
        if "authorization" not in request.headers:
            return Answer(401, headers={"WWW-Authenticate": 'Basic realm="x"'})
        where = "absent" if digest_of(b"absent") in request.path else "there"
        return Answer(307, headers={"Location": f"http://{storage.host}/{where}"})

    script = serve(decide)
    with connect(script.repository()) as sink:
        assert sink.has_blob(digest_of(b"there"))
        assert not sink.has_blob(digest_of(b"absent"))
    assert [(r.method, r.path) for r in storage.requests] == [("HEAD", "/there"), ("HEAD", "/absent")]
    assert storage.authorizations == [None, None]


def test_check_push_leaves_no_upload_behind(connect: Connect, registry: RegistryService) -> None:
    with connect(registry.repository("push/check")) as sink:
        sink.check_push()
    uploads = registry.data / "docker/registry/v2/repositories/push/check/_uploads"
    # A session that is cancelled loses its start time; distribution 2.8 leaves empty folders of it behind.
    assert list(uploads.rglob("startedat")) == []


@pytest.mark.parametrize("answer", [Answer(405), Answer(503), Answer(200, b"bye", {}, cut_after=1)])
def test_check_push_does_not_need_to_cancel(connect: Connect, serve: Serve, answer: Answer) -> None:
    script = serve(uploading(answer))
    with connect(script.repository()) as sink:
        sink.check_push()
    assert [r.method for r in script.requests] == ["POST", "DELETE"]


def test_check_push_without_the_right(connect: Connect, serve: Serve) -> None:
    script = serve(lambda _: Answer(403, b'{"errors":[{"code":"DENIED","message":"read only"}]}'))
    with connect(script.repository()) as sink, pytest.raises(DeniedError, match="DENIED: read only"):
        sink.check_push()


def test_a_registry_that_is_read_only(connect: Connect, tmp_path: Path, make_artifact: MakeArtifact) -> None:
    service = RegistryService(tmp_path, read_only=True)
    service.start()
    try:
        with connect(service.repository("push/read-only")) as sink:
            for push in (sink.check_push, lambda: make_artifact().push(sink, "v1")):
                with pytest.raises(DeniedError, match="405") as caught:
                    push()
                assert "read-only" in caught.value.hint
            assert sink.tags() == []
    finally:
        service.stop()


def test_a_registry_that_does_not_say_where_to_upload(connect: Connect, serve: Serve) -> None:
    script = serve(lambda _: Answer(202))
    with connect(script.repository()) as sink, pytest.raises(UnavailableError, match="where to upload"):
        sink.check_push()


def test_a_dead_port(connect: Connect) -> None:
    repository = RegistryRepository(f"127.0.0.1:{free_port()}", "acme/cache")
    with connect(repository) as sink, pytest.raises(UnavailableError, match="Connection refused"):
        sink.check_push()


def test_the_time_budget_ends_a_silent_server(connect: Connect, serve: Serve) -> None:
    script = serve(lambda _: Answer(hang=True))
    with (
        connect(script.repository(), Options(timeout_s=0.5)) as sink,
        pytest.raises(UnavailableError, match=r"within 0.5 s|in time"),
    ):
        sink.check_push()


def test_a_proxy_is_used(connect: Connect, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = serve(uploading(Answer(201)))
    monkeypatch.setenv("http_proxy", f"http://{proxy.host}")
    with connect(RegistryRepository("registry.example", "acme/cache"), Options(plain_http=True)) as sink:
        sink.put_document(DOCUMENT, "v1")
    assert [r.path for r in proxy.requests] == ["http://registry.example/v2/acme/cache/manifests/v1"]


def test_a_password_in_netrc_is_not_ours(
    connect: Connect, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login other password other\n")
    monkeypatch.setenv("NETRC", str(netrc))
    script = serve(uploading(Answer(201)))
    with connect(script.repository()) as sink:
        sink.put_document(DOCUMENT, "v1")
    assert script.authorizations == [None]


def test_a_registry_stopped_and_started_again(
    connect: Connect, tmp_path: Path, make_artifact: MakeArtifact
) -> None:
    service = RegistryService(tmp_path)
    service.start()
    try:
        with connect(service.repository("push/restart")) as sink:
            artifact = make_artifact()
            artifact.push(sink, "v1")
            service.stop()
            with pytest.raises(UnavailableError):
                sink.resolve("v1")
            service.start()
            assert sink.resolve("v1") == artifact.document
    finally:
        service.stop()


def test_oras_is_only_needed_to_push_to_a_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "oras", None)
    with pytest.raises(ToolMissingError) as caught, open_sink(RegistryRepository("ghcr.io", "acme/cache")):
        pass
    assert "glowplug[build]" in caught.value.hint
