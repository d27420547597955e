"""Fixtures for the tests of registries."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from glowplug.core.oci import CONFIG_TYPE, LAYER_TYPE, Descriptor, Manifest, digest_of, encode
from glowplug.registry import retry
from glowplug.registry.sink import open_sink, open_sink_without_extras
from integration.registry.artifacts import Artifact, Connect, MakeArtifact
from integration.registry.scripted import Answer, Request, Script, Serve


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start servers whose answers a function decides."""
    servers: list[ThreadingHTTPServer] = []
    over = threading.Event()

    def start(decide: Callable[[Request], Answer], tls: ssl.SSLContext | None = None) -> Script:
        seen: list[Request] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.command, self.path, headers, self.rfile.read(length))
                seen.append(request)
                answer = decide(request)
                if answer.hang:
                    over.wait(60)
                    return
                self.send_response(answer.status)
                for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body[: answer.cut_after])
                self.close_connection = answer.cut_after is not None

            do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_one  # noqa: N815

            def log_message(self, *args: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that hung up
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return Script(f"127.0.0.1:{server.server_port}", seen)

    yield start
    over.set()
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(params=[open_sink, open_sink_without_extras], ids=["oras", "base"])
def connect(request: pytest.FixtureRequest) -> Connect:
    """Open a repository for writing, in either way: what holds for one holds for the other."""
    opener: Connect = request.param
    return opener


@pytest.fixture
def own_name(tmp_path: Path) -> str:
    """A repository that no other test uses, in a registry that others use."""
    return f"tests/{tmp_path.name.replace('_', '-').lower()}"


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses are tested as numbers."""
    monkeypatch.setattr(retry, "FIRST_PAUSE_S", 0.001)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the developer's own logins, proxies and certificates takes part."""
    logins = [
        "GLOWPLUG_USERNAME",
        "GLOWPLUG_PASSWORD",
        "DOCKER_CONFIG",
        "REGISTRY_AUTH_FILE",
        "XDG_RUNTIME_DIR",
    ]
    certificates = ["REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"]
    proxies = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"]
    for name in logins + certificates + proxies + [name.lower() for name in proxies]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def make_artifact(tmp_path: Path) -> MakeArtifact:
    """Build artifacts whose layer holds the given bytes."""

    def make(content: bytes = b"layer bytes " * 1000, title: str = "cache.bin") -> Artifact:
        config = encode(
            {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}}
        )
        blobs = []
        for media_type, data in ((CONFIG_TYPE, config), (LAYER_TYPE, content)):
            path = tmp_path / digest_of(data).removeprefix("sha256:")
            path.write_bytes(data)
            notes = {"org.opencontainers.image.title": title} if media_type == LAYER_TYPE else {}
            blobs.append((Descriptor(media_type, digest_of(data), len(data), notes), path))
        manifest = Manifest(blobs[0][0], (blobs[1][0],), {"dev.glowplug.test": "yes"})
        return Artifact(manifest.document(), tuple(blobs))

    return make
