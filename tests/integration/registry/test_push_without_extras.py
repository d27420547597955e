"""Pushing with the base install, as a container does beside its model."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import glowplug
from glowplug.core.oci import LAYER_TYPE, Descriptor
from glowplug.core.reference import RegistryRepository
from glowplug.errors import GlowplugError, UnavailableError
from glowplug.registry.options import Deadline, Options
from glowplug.registry.sink import open_sink_without_extras
from glowplug.registry.source import read_blob
from glowplug.registry.transport import Transport
from integration.registry.artifacts import MakeArtifact
from integration.registry.scripted import Answer, Request, Serve
from integration.services import RegistryService

EXTRAS = ("oras", "requests", "deflate", "yaml", "docker", "jsonschema")
PUSH = """
import json, sys
from pathlib import Path
from glowplug.core.oci import Descriptor
from glowplug.core.reference import RegistryRepository
from glowplug.registry.sink import open_sink_without_extras

host, name, digest, size_bytes, path = sys.argv[1:]
with open_sink_without_extras(RegistryRepository(host, name)) as sink:
    sink.check_push()
    sink.put_blob(Descriptor("application/octet-stream", digest, int(size_bytes)), Path(path))
    assert sink.has_blob(digest)
print(json.dumps(sorted(sys.modules)))
"""


@pytest.fixture
def deaf() -> Iterator[RegistryRepository]:
    """A registry that opens uploads, and then reads nothing of them."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        over, accepted = threading.Event(), []

        def answer() -> None:
            replies = [b"404 Not Found\r\n", b"202 Accepted\r\nLocation: /upload\r\n"]
            while not over.is_set():
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    continue
                accepted.append(connection)
                while replies and connection.recv(4096):
                    connection.sendall(b"HTTP/1.1 " + replies.pop(0) + b"Content-Length: 0\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield RegistryRepository(f"127.0.0.1:{server.getsockname()[1]}", "acme/cache")
        over.set()
        thread.join()
        for connection in accepted:
            connection.close()


def test_nothing_of_the_build_side_is_imported(
    registry: RegistryService, own_name: str, make_artifact: MakeArtifact
) -> None:
    descriptor, path = make_artifact().blobs[1]
    done = subprocess.run(
        [
            *(sys.executable, "-c", PUSH, registry.host, own_name),
            *(descriptor.digest, str(descriptor.size_bytes), str(path)),
        ],
        env={**os.environ, "PYTHONPATH": str(Path(glowplug.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    modules = json.loads(done.stdout)
    assert "urllib3" in modules
    assert [name for name in modules if name.partition(".")[0] in EXTRAS] == []


def test_threads_push_through_one_sink(
    private_registry: RegistryService,
    own_name: str,
    make_artifact: MakeArtifact,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GLOWPLUG_USERNAME", private_registry.user)
    monkeypatch.setenv("GLOWPLUG_PASSWORD", private_registry.password)
    artifacts = [make_artifact(bytes([number]) * 700_000) for number in range(12)]
    with open_sink_without_extras(private_registry.repository(own_name)) as sink:
        with ThreadPoolExecutor(12) as threads:
            list(threads.map(lambda item: item[1].push(sink, f"v{item[0]}"), enumerate(artifacts)))
        assert len(sink.tags()) == len(artifacts)
        for number, artifact in enumerate(artifacts):
            assert sink.resolve(f"v{number}") == artifact.document
            assert read_blob(sink, artifact.layer) == bytes([number]) * 700_000


def test_memory_does_not_grow_with_the_blob(
    registry: RegistryService, own_name: str, make_artifact: MakeArtifact
) -> None:
    descriptor, path = make_artifact(bytes(64 * 1024 * 1024)).blobs[1]
    with open_sink_without_extras(registry.repository(own_name)) as sink:
        tracemalloc.start()
        try:
            sink.put_blob(descriptor, path)
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert sink.has_blob(descriptor.digest)
    assert peak_bytes < 8 * 1024 * 1024


def test_the_time_budget_ends_an_upload_that_nobody_reads(deaf: RegistryRepository, tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(64 * 1024 * 1024)
    descriptor = Descriptor(LAYER_TYPE, "sha256:" + "00" * 32, 64 * 1024 * 1024)
    with (
        open_sink_without_extras(deaf, Options(timeout_s=0.5)) as sink,
        pytest.raises(UnavailableError, match=r"within 0.5 s|in time"),
    ):
        sink.put_blob(descriptor, path)


def test_an_upload_goes_where_a_relative_location_says_whatever_its_query(
    serve: Serve, make_artifact: MakeArtifact
) -> None:
    def decide(request: Request) -> Answer:
        if request.method == "POST":
            return Answer(202, headers={"Location": "session/1?state=a%2Fb"})
        return Answer(404 if request.method == "HEAD" else 201)

    script = serve(decide)
    descriptor, path = make_artifact().blobs[1]
    with open_sink_without_extras(script.repository()) as sink:
        sink.put_blob(descriptor, path)
    put = script.requests[-1]
    assert (put.method, put.body) == ("PUT", path.read_bytes())
    assert put.headers["content-length"] == str(descriptor.size_bytes)
    assert "transfer-encoding" not in put.headers
    digest = descriptor.digest.replace(":", "%3A")
    assert put.path == f"/v2/acme/cache/blobs/uploads/session/1?state=a%2Fb&digest={digest}"


def test_a_slow_upload_meets_the_deadline(serve: Serve) -> None:
    script = serve(lambda _: Answer(201))
    now = [0.0]
    transport = Transport(Options(), Deadline(10.0, lambda: now[0]))

    def slowly() -> Iterator[bytes]:
        for now[0] in (1.0, 9.0, 11.0):
            yield b"."

    with pytest.raises(UnavailableError, match="did not finish within 10 s"):
        transport.send("PUT", f"http://{script.host}/", {"Content-Length": "3"}, slowly())
    transport.close()


def test_a_file_that_is_gone_is_one_sentence(
    registry: RegistryService, own_name: str, make_artifact: MakeArtifact
) -> None:
    descriptor, path = make_artifact(b"gone").blobs[1]
    path.unlink()
    with (
        open_sink_without_extras(registry.repository(own_name)) as sink,
        pytest.raises(GlowplugError, match=r"cannot read .*: No such file"),
    ):
        sink.put_blob(descriptor, path)
