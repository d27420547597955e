"""Mirrors before a registry: what is asked of whom, with which login, and what is believed."""

from __future__ import annotations

import base64
import errno
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from glowplug.core.oci import LAYER_TYPE, MANIFEST_TYPE, Descriptor, Document, digest_of, encode
from glowplug.errors import IntegrityError, NotFoundError, UnavailableError, UsageError
from glowplug.registry.options import Options
from glowplug.registry.sink import open_sink
from glowplug.registry.source import Source, open_source, read_blob
from integration.registry.artifacts import MakeArtifact
from integration.registry.scripted import Answer, Request, Script, Serve
from integration.services import RegistryService, free_port

BLOB = bytes(range(256)) * 8000  # more than is kept in memory
DESCRIPTOR = Descriptor(LAYER_TYPE, digest_of(BLOB), len(BLOB))
NEW = Document(MANIFEST_TYPE, encode({"schemaVersion": 2, "mediaType": MANIFEST_TYPE}))
OLD = Document(MANIFEST_TYPE, encode({"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "annotations": {}}))


def holding(document: Document = NEW, blob: bytes = BLOB) -> Callable[[Request], Answer]:
    """A registry that holds one document and one blob, whatever it is asked for."""

    def decide(request: Request) -> Answer:
        if "/blobs/" in request.path:
            return Answer(200, blob)
        if "/tags/" in request.path:
            return Answer(200, b'{"name":"x","tags":["v1"]}')
        return Answer(200, document.raw, {"Content-Type": MANIFEST_TYPE})

    return decide


@contextmanager
def opened(script: Script, mirrors: str, options: Options = Options()) -> Iterator[tuple[Source, list[str]]]:  # noqa: B008
    notes: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLOWPLUG_MIRRORS", mirrors)
        with open_source(script.repository(), options, notes.append) as source:
            yield source, notes


def read(source: Source) -> bytes:
    return read_blob(source, DESCRIPTOR)


def test_a_mirror_that_has_everything_is_all_that_is_asked(serve: Serve) -> None:
    origin, mirror = serve(holding()), serve(holding())
    with opened(origin, f"{mirror.host}/proxied") as (source, notes):
        assert source.resolve("v1") == NEW
        assert source.resolve(NEW.digest) == NEW
        assert read(source) == BLOB
    assert origin.requests == []
    assert [r.path for r in mirror.requests] == [
        f"/v2/proxied/acme/cache/{rest}"
        for rest in ("manifests/v1", f"manifests/{NEW.digest}", f"blobs/{DESCRIPTOR.digest}")
    ]
    assert notes == []


def test_mirrors_are_asked_in_order_and_one_that_fails_once(serve: Serve) -> None:
    origin, second = serve(holding()), serve(lambda _: Answer(500))
    dead = f"127.0.0.1:{free_port()}"
    with opened(origin, f"{dead} {second.host}") as (source, notes):
        for _ in range(2):
            assert source.resolve("v1") == NEW
            assert read(source) == BLOB
    assert len(second.requests) == 1
    assert len(origin.requests) == 4
    assert [note.split(":")[0] for note in notes] == ["going on without the mirror 127.0.0.1"] * 2
    assert dead in notes[0]
    assert second.host in notes[1]


def test_the_failure_that_counts_is_the_registry_s_own(serve: Serve) -> None:
    origin, mirror = serve(lambda _: Answer(404)), serve(lambda _: Answer(403))
    with opened(origin, mirror.host) as (source, notes), pytest.raises(NotFoundError, match=origin.host):
        source.resolve("v1")
    assert len(notes) == 1


def test_damaged_bytes_of_a_mirror_are_never_passed_on(serve: Serve) -> None:
    origin, mirror = serve(holding()), serve(holding(blob=b"!" + BLOB[1:]))
    with opened(origin, mirror.host) as (source, notes):
        assert read(source) == BLOB
        assert read(source) == BLOB
    assert len(mirror.requests) == 1
    assert "holds other bytes" in notes[0]
    assert len(notes) == 1


def test_a_mirror_that_breaks_off_is_left(serve: Serve) -> None:
    origin, mirror = serve(holding()), serve(lambda _: Answer(200, BLOB, cut_after=100_000))
    with opened(origin, mirror.host) as (source, notes):
        assert read(source) == BLOB
    assert (len(mirror.requests), len(origin.requests), len(notes)) == (1, 1, 1)


def test_threads_say_once_that_a_mirror_is_left(serve: Serve) -> None:
    origin, mirror = serve(holding()), serve(lambda _: Answer(503))
    with opened(origin, mirror.host) as (source, notes), ThreadPoolExecutor(8) as threads:
        assert set(threads.map(read, [source] * 8)) == {BLOB}
    assert len(notes) == 1


class FullDisk(BytesIO):
    def write(self, _data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_no_room_is_not_the_mirror_s_fault(serve: Serve) -> None:
    origin, mirror = serve(holding()), serve(holding())
    with opened(origin, mirror.host) as (source, notes), pytest.raises(OSError, match="No space left"):
        source.copy_blob(DESCRIPTOR, FullDisk())
    assert (len(origin.requests), notes) == (0, [])


def test_a_mirror_s_tag_may_be_old_but_its_digests_may_not_lie(serve: Serve) -> None:
    origin, mirror = serve(holding()), serve(holding(OLD))
    with opened(origin, mirror.host) as (source, notes):
        assert source.resolve("v1") == OLD
        assert source.resolve(NEW.digest) == NEW
    assert len(notes) == 1
    with opened(serve(holding(OLD)), mirror.host) as (source, _), pytest.raises(IntegrityError):
        source.resolve(NEW.digest)


def test_tags_are_listed_by_the_registry(serve: Serve) -> None:
    origin, mirror = serve(holding()), serve(holding())
    with opened(origin, mirror.host) as (source, _):
        assert source.tags() == ["v1"]
    assert mirror.requests == []


def test_a_mirror_of_another_registry_is_not_asked(serve: Serve) -> None:
    origin, mirror = serve(holding()), serve(holding())
    with opened(origin, f"ghcr.io={mirror.host}") as (source, _):
        source.resolve("v1")
    assert mirror.requests == []
    with opened(origin, f"{origin.host}={mirror.host}") as (source, _):
        source.resolve("v1")
    assert len(mirror.requests) == 1


def test_a_registry_is_no_mirror_of_itself(serve: Serve) -> None:
    origin = serve(lambda _: Answer(404))
    with opened(origin, origin.host) as (source, notes), pytest.raises(NotFoundError):
        source.resolve("v1")
    assert len(origin.requests) == 1
    assert notes == []


def test_half_of_the_time_is_left_to_the_registry(serve: Serve) -> None:
    origin, mirror = serve(holding()), serve(lambda _: Answer(hang=True))
    with opened(origin, mirror.host, Options(timeout_s=2)) as (source, notes):
        assert source.resolve("v1") == NEW
    assert "did not finish within 1 s" in notes[0]


def test_plain_http_only_where_the_mirror_says_so(serve: Serve) -> None:
    origin = serve(holding())
    mirror = serve(holding())
    elsewhere = mirror.host.replace("127.0.0.1", "0.0.0.0")  # not a name of this machine's, yet it leads here
    with opened(origin, elsewhere, Options(plain_http=True)) as (source, notes):
        source.resolve("v1")
    assert "cannot trust" in notes[0]
    assert mirror.requests == []
    with opened(origin, f"http://{elsewhere}") as (source, notes):
        source.resolve("v1")
    assert len(mirror.requests) == 1
    assert notes == []


def wanting(user: str) -> Callable[[Request], Answer]:
    expected = "Basic " + base64.b64encode(f"{user}:secret".encode()).decode()

    def decide(request: Request) -> Answer:
        if request.headers.get("authorization") == expected:
            return holding()(request)
        return Answer(401, headers={"WWW-Authenticate": 'Basic realm="x"'})

    return decide


def test_each_host_gets_its_own_login(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin, known, unknown = serve(wanting("robot")), serve(wanting("reader")), serve(wanting("robot"))
    pair = base64.b64encode(b"reader:secret").decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {known.host: {"auth": pair}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("GLOWPLUG_USERNAME", "robot")
    monkeypatch.setenv("GLOWPLUG_PASSWORD", "secret")
    with opened(origin, unknown.host) as (source, notes):
        assert source.resolve("v1") == NEW
    assert unknown.authorizations == [None]
    assert "wants a user name" in notes[0]
    with opened(origin, known.host) as (source, notes):
        assert source.resolve("v1") == NEW
    assert notes == []
    assert known.authorizations == [None, f"Basic {pair}"]


def test_nothing_is_pushed_to_a_mirror_or_asked_of_it_before(
    serve: Serve, registry: RegistryService, make_artifact: MakeArtifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = serve(holding(OLD))
    monkeypatch.setenv("GLOWPLUG_MIRRORS", mirror.host)
    artifact = make_artifact()
    with open_sink(registry.repository("mirrors/push")) as sink:
        sink.check_push()
        artifact.push(sink, "v1")
        assert sink.resolve("v1") == artifact.document
    assert mirror.requests == []


def test_a_list_that_cannot_be_read(serve: Serve) -> None:
    origin = serve(holding())
    with pytest.raises(UsageError, match="'mirror' in GLOWPLUG_MIRRORS"), opened(origin, "mirror"):
        pass
    assert origin.requests == []


def test_all_down(serve: Serve) -> None:
    dead = Script(f"127.0.0.1:{free_port()}", [])
    with (
        opened(dead, f"127.0.0.1:{free_port()}", Options(retries=0)) as (source, notes),
        pytest.raises(UnavailableError, match=dead.host),
    ):
        source.resolve("v1")
    assert len(notes) == 1
