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
from integration.registry.artifacts import MakeArtifact
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
    serve: Serve, make_artifact: MakeArtifact
) -> None:
    script = serve(uploading(Answer(503), Answer(502), Answer(201)))
    descriptor, path = make_artifact().blobs[1]
    with open_sink(script.repository()) as sink:
        sink.put_blob(descriptor, path)
    assert [r.method for r in script.requests] == ["HEAD"] + ["POST", "PUT"] * 3
    assert script.requests[-1].body == path.read_bytes()


def test_a_blob_that_is_there_is_not_sent(registry: RegistryService, make_artifact: MakeArtifact) -> None:
    descriptor, path = make_artifact(b"sent once").blobs[1]
    with open_sink(registry.repository("push/once")) as sink:
        sink.put_blob(descriptor, path)
        path.unlink()
        sink.put_blob(descriptor, path)


def test_a_busy_registry_is_asked_again(serve: Serve) -> None:
    script = serve(uploading(Answer(429, headers={"Retry-After": "0"}), Answer(201)))
    with open_sink(script.repository()) as sink:
        sink.put_document(DOCUMENT, "v1")
    assert [r.path for r in script.requests] == ["/v2/acme/cache/manifests/v1"] * 2
    assert script.requests[-1].body == DOCUMENT.raw
    assert script.requests[-1].headers["content-type"] == MANIFEST_TYPE


def test_a_registry_that_stored_something_else(serve: Serve) -> None:
    script = serve(uploading(Answer(201, headers={"Docker-Content-Digest": digest_of(b"other")})))
    with open_sink(script.repository()) as sink, pytest.raises(IntegrityError, match=digest_of(b"other")):
        sink.put_document(DOCUMENT, "v1")


def test_check_push_leaves_no_upload_behind(registry: RegistryService) -> None:
    with open_sink(registry.repository("push/check")) as sink:
        sink.check_push()
    uploads = registry.data / "docker/registry/v2/repositories/push/check/_uploads"
    # A session that is cancelled loses its start time; distribution 2.8 leaves empty folders of it behind.
    assert list(uploads.rglob("startedat")) == []


def test_check_push_does_not_need_to_cancel(serve: Serve) -> None:
    script = serve(uploading(Answer(405)))
    with open_sink(script.repository()) as sink:
        sink.check_push()
    assert [r.method for r in script.requests] == ["POST", "DELETE"]


def test_check_push_without_the_right(serve: Serve) -> None:
    script = serve(lambda _: Answer(403, b'{"errors":[{"code":"DENIED","message":"read only"}]}'))
    with open_sink(script.repository()) as sink, pytest.raises(DeniedError, match="DENIED: read only"):
        sink.check_push()


def test_a_registry_that_does_not_say_where_to_upload(serve: Serve) -> None:
    script = serve(lambda _: Answer(202))
    with open_sink(script.repository()) as sink, pytest.raises(UnavailableError, match="where to upload"):
        sink.check_push()


def test_a_dead_port() -> None:
    repository = RegistryRepository(f"127.0.0.1:{free_port()}", "acme/cache")
    with open_sink(repository) as sink, pytest.raises(UnavailableError, match="Connection refused"):
        sink.check_push()


def test_the_time_budget_ends_a_silent_server(serve: Serve) -> None:
    script = serve(lambda _: Answer(hang=True))
    with (
        open_sink(script.repository(), Options(timeout_s=0.5)) as sink,
        pytest.raises(UnavailableError, match=r"within 0.5 s|in time"),
    ):
        sink.check_push()


def test_a_proxy_is_used(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = serve(uploading(Answer(201)))
    monkeypatch.setenv("http_proxy", f"http://{proxy.host}")
    with open_sink(RegistryRepository("registry.example", "acme/cache"), Options(plain_http=True)) as sink:
        sink.put_document(DOCUMENT, "v1")
    assert [r.path for r in proxy.requests] == ["http://registry.example/v2/acme/cache/manifests/v1"]


def test_a_password_in_netrc_is_not_ours(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login other password other\n")
    monkeypatch.setenv("NETRC", str(netrc))
    script = serve(uploading(Answer(201)))
    with open_sink(script.repository()) as sink:
        sink.put_document(DOCUMENT, "v1")
    assert script.authorizations == [None]


def test_a_registry_stopped_and_started_again(tmp_path: Path, make_artifact: MakeArtifact) -> None:
    service = RegistryService(tmp_path)
    service.start()
    try:
        with open_sink(service.repository("push/restart")) as sink:
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
