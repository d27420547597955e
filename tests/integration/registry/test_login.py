"""Who may do what: Basic against a real registry, tokens against a scripted one."""

from __future__ import annotations

import base64
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from glowplug.core.oci import MANIFEST_TYPE, Document, digest_of, encode
from glowplug.errors import DeniedError, UnavailableError
from glowplug.registry.source import open_source, read_blob
from integration.registry.artifacts import Connect, MakeArtifact
from integration.registry.scripted import Answer, Request, Script, Serve
from integration.services import RegistryService

DOCUMENT = Document(MANIFEST_TYPE, encode({"schemaVersion": 2, "mediaType": MANIFEST_TYPE}))


def login(monkeypatch: pytest.MonkeyPatch, user: str, password: str) -> None:
    monkeypatch.setenv("GLOWPLUG_USERNAME", user)
    monkeypatch.setenv("GLOWPLUG_PASSWORD", password)


def test_basic_push_and_pull(
    connect: Connect,
    private_registry: RegistryService,
    own_name: str,
    make_artifact: MakeArtifact,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    login(monkeypatch, private_registry.user, private_registry.password)
    artifact = make_artifact()
    repository = private_registry.repository(own_name)
    with connect(repository) as sink:
        sink.check_push()
        artifact.push(sink, "v1")
    with open_source(repository) as source:
        assert source.resolve("v1") == artifact.document
        assert len(read_blob(source, artifact.layer)) == artifact.layer.size_bytes


def test_basic_from_a_docker_config(
    connect: Connect, private_registry: RegistryService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = base64.b64encode(f"{private_registry.user}:{private_registry.password}".encode()).decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {private_registry.host: {"auth": pair}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with connect(private_registry.repository("login/config")) as sink:
        sink.check_push()
        assert sink.tags() == []


@pytest.mark.parametrize("password", ["", "wrong"])
def test_without_the_right_password(
    connect: Connect, private_registry: RegistryService, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    login(monkeypatch, private_registry.user, password)
    repository = private_registry.repository("login/denied")
    with connect(repository) as sink:
        with pytest.raises(DeniedError) as caught:
            sink.check_push()
        assert "docker login" in caught.value.hint
        with pytest.raises(DeniedError):
            sink.tags()
        with pytest.raises(DeniedError):
            sink.has_blob(digest_of(b"x"))
        with pytest.raises(DeniedError):
            sink.put_document(DOCUMENT, "v1")


class TokenRegistry:
    """A registry that wants bearer tokens for the right scope, and its token server, in one."""

    def __init__(self, *, life_s: int = 300, user: str = "robot:secret") -> None:
        self.life_s = life_s
        self.user = user
        self.granted: list[str] = []
        self.revoked: set[str] = set()
        self.script: Script

    def decide(self, request: Request) -> Answer:
        if request.path.startswith("/token"):
            return self.token(request)
        needed = "pull" if request.method in ("GET", "HEAD") else "pull,push"
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        _, _, actions = token.partition(":")
        if token in self.revoked or not set(needed.split(",")) <= set(actions.split(",")):
            return Answer(401, headers={"WWW-Authenticate": self.challenge(needed)})
        return self.serve(request)

    def challenge(self, actions: str) -> str:
        realm = f"http://{self.script.host}/token?from=challenge"
        return f'Bearer realm="{realm}",service="tests",scope="repository:acme/cache:{actions}"'

    def token(self, request: Request) -> Answer:
        query = parse_qs(urlsplit(request.path).query) | parse_qs(request.body.decode())
        if self.user:
            pair = base64.b64encode(self.user.encode()).decode()
            refreshed = query.get("refresh_token") == ["identity"] and query["grant_type"] == [
                "refresh_token"
            ]
            if request.headers.get("authorization") != f"Basic {pair}" and not refreshed:
                return Answer(401, b'{"errors":[{"code":"UNAUTHORIZED"}]}')
        assert query["service"] == ["tests"]
        repository, _, actions = query["scope"][0].rpartition(":")
        assert repository == "repository:acme/cache"
        self.granted.append(f"{len(self.granted)}:{actions}")
        return Answer(200, encode({"token": self.granted[-1], "expires_in": self.life_s}))

    def serve(self, request: Request) -> Answer:
        if request.method == "GET":
            return Answer(200, DOCUMENT.raw, {"Content-Type": MANIFEST_TYPE})
        if request.method == "HEAD":
            return Answer(404)
        if request.method == "POST":
            return Answer(202, headers={"Location": "/upload/1?state=x"})
        return Answer(204 if request.method == "DELETE" else 201)


def start(serve: Serve, registry: TokenRegistry) -> TokenRegistry:
    registry.script = serve(registry.decide)
    return registry


def test_one_pull_token_serves_all_reads(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    login(monkeypatch, "robot", "secret")
    registry = start(serve, TokenRegistry())
    with open_source(registry.script.repository()) as source:
        for _ in range(3):
            assert source.resolve("v1") == DOCUMENT
    assert registry.granted == ["0:pull"]


def test_threads_share_a_token(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    login(monkeypatch, "robot", "secret")
    registry = start(serve, TokenRegistry())
    with open_source(registry.script.repository()) as source, ThreadPoolExecutor(8) as threads:
        assert set(threads.map(source.resolve, ["v1"] * 32)) == {DOCUMENT}
    assert registry.granted == ["0:pull"]


def test_a_push_asks_once_for_both_rights(
    connect: Connect, serve: Serve, make_artifact: MakeArtifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    login(monkeypatch, "robot", "secret")
    registry = start(serve, TokenRegistry())
    with connect(registry.script.repository()) as sink:
        assert not sink.has_blob(digest_of(b"x"))  # challenged with "pull"
        sink.check_push()
        make_artifact().push(sink, "v1")
        assert sink.resolve("v1") == DOCUMENT
    assert registry.granted == ["0:pull,push"]
    uploads = [r.path for r in registry.script.requests if r.method == "PUT" and r.path.startswith("/upload")]
    assert len(uploads) == 2
    assert all(path.startswith("/upload/1?state=x&digest=sha256%3A") for path in uploads)


def test_a_revoked_token_is_renewed_in_the_middle_of_a_push(
    connect: Connect, serve: Serve, make_artifact: MakeArtifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    login(monkeypatch, "robot", "secret")
    registry = start(serve, TokenRegistry())
    artifact = make_artifact()
    with connect(registry.script.repository()) as sink:
        sink.check_push()
        registry.revoked.update(registry.granted)
        artifact.push(sink, "v1")
    assert registry.granted == ["0:pull,push", "1:pull,push"]


def test_an_upload_that_is_challenged_sends_its_bytes_again(
    connect: Connect, serve: Serve, make_artifact: MakeArtifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    login(monkeypatch, "robot", "secret")
    registry = TokenRegistry()
    serve_normally = registry.serve

    def revoke_after_post(request: Request) -> Answer:
        if request.method == "POST" and len(registry.granted) == 1:
            registry.revoked.update(registry.granted)
        return serve_normally(request)

    registry.serve = revoke_after_post  # type: ignore[method-assign]
    start(serve, registry)
    artifact = make_artifact()
    with connect(registry.script.repository()) as sink:
        descriptor, path = artifact.blobs[1]
        sink.put_blob(descriptor, path)
    bodies = [r.body for r in registry.script.requests if r.method == "PUT"]
    assert bodies == [path.read_bytes()] * 2


def test_an_expired_token_is_not_sent(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    login(monkeypatch, "robot", "secret")
    registry = start(serve, TokenRegistry(life_s=1))
    with open_source(registry.script.repository()) as source:
        source.resolve("v1")
        source.resolve("v1")
    assert registry.granted == ["0:pull", "1:pull"]


def test_anyone_may_have_a_token(serve: Serve) -> None:
    registry = start(serve, TokenRegistry(user=""))
    with open_source(registry.script.repository()) as source:
        assert source.resolve("v1") == DOCUMENT


def test_an_identity_token_is_exchanged(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = start(serve, TokenRegistry())
    entry = {registry.script.host: {"identitytoken": "identity"}}
    (tmp_path / "config.json").write_text(json.dumps({"auths": entry}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with open_source(registry.script.repository()) as source:
        assert source.resolve("v1") == DOCUMENT


def test_a_token_server_that_refuses(connect: Connect, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    login(monkeypatch, "robot", "wrong")
    registry = start(serve, TokenRegistry())
    with open_source(registry.script.repository()) as source, pytest.raises(DeniedError, match="token"):
        source.resolve("v1")
    with connect(registry.script.repository()) as sink, pytest.raises(DeniedError, match="token"):
        sink.check_push()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(200, b"<html>"), UnavailableError),
        (Answer(404), UnavailableError),
        (Answer(200, b"{}"), DeniedError),
    ],
)
def test_a_token_server_that_is_none(serve: Serve, answer: Answer, error: type[Exception]) -> None:
    registry = TokenRegistry()
    registry.token = lambda request: answer  # type: ignore[method-assign]
    start(serve, registry)
    with open_source(registry.script.repository()) as source, pytest.raises(error):
        source.tags()


def test_the_right_to_pull_is_not_the_right_to_push(
    connect: Connect, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    login(monkeypatch, "robot", "secret")
    registry = TokenRegistry()
    registry.token = lambda request: Answer(200, encode({"token": "0:pull"}))  # type: ignore[method-assign]
    start(serve, registry)
    with connect(registry.script.repository()) as sink:
        assert sink.resolve("v1") == DOCUMENT
        with pytest.raises(DeniedError):
            sink.check_push()


def test_a_password_is_not_sent_to_a_token_server_without_encryption(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    login(monkeypatch, "robot", "secret")
    challenge = {"WWW-Authenticate": 'Bearer realm="http://evil.example/token"'}
    script = serve(lambda _: Answer(401, headers=challenge))
    with open_source(script.repository()) as source, pytest.raises(DeniedError, match="not be encrypted"):
        source.resolve("v1")


def test_a_token_server_without_an_address(serve: Serve) -> None:
    script = serve(lambda _: Answer(401, headers={"WWW-Authenticate": 'Bearer realm="http://[::1"'}))
    with open_source(script.repository()) as source, pytest.raises(UnavailableError, match="no URL"):
        source.resolve("v1")


def test_uploads_elsewhere_get_no_credentials(
    connect: Connect, serve: Serve, make_artifact: MakeArtifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    login(monkeypatch, "robot", "secret")
    storage = serve(lambda _: Answer(201))

    def decide(request: Request) -> Answer:
        if "authorization" not in request.headers:
            return Answer(401, headers={"WWW-Authenticate": 'Basic realm="x"'})
        if request.method == "POST":
            return Answer(202, headers={"Location": f"http://{storage.host}/bucket/upload"})
        return Answer(404 if request.method == "HEAD" else 201)

    script = serve(decide)
    artifact = make_artifact()
    descriptor, path = artifact.blobs[1]
    with connect(script.repository()) as sink:
        sink.put_blob(descriptor, path)
    assert storage.authorizations == [None]
    assert [r.body for r in storage.requests] == [path.read_bytes()]


def test_a_failed_login_prints_nothing(
    connect: Connect,
    private_registry: RegistryService,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    login(monkeypatch, "robot", "hunter2")
    caplog.set_level(logging.WARNING)
    with connect(private_registry.repository("login/quiet")) as sink, pytest.raises(DeniedError) as caught:
        sink.check_push()
    assert "hunter2" not in f"{caught.value}{caught.value.hint}"
    assert capfd.readouterr() == ("", "")
    assert caplog.text == ""
