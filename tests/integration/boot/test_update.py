"""What running servers compiled goes back to a real registry; nothing of anyone's is lost."""

import io
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from glowplug.archive.format import MAX_LAYERS
from glowplug.boot import update
from glowplug.boot.access import Access
from glowplug.boot.fetch import fetch
from glowplug.boot.update import (
    Changes,
    look_for_changes,
    publish_direct,
    publish_pending,
    read_published,
)
from glowplug.core.oci import parse_manifest
from glowplug.core.reference import Reference
from glowplug.errors import GlowplugError
from glowplug.registry.cache_index import update_index
from glowplug.registry.sink import open_sink, open_sink_without_extras
from glowplug.report.console import Console
from unit.artifacts import FILES, make_sealed, make_session, publish
from unit.samples import H100

TAG = f"v3-{H100.gpu_type}"
NEW = {"inductor/fxgraph/zz/new/content": b"new graph" * 500, "triton/B/mul.cubin": b"mul" * 4000}


@dataclass
class Server:
    """A container that fetched the artifact, and compiles."""

    sink: object
    place: Path
    digest: str

    def published(self):
        return read_published(self.sink, TAG)

    def compile(self, files, environ=None) -> Changes:
        for path, content in files.items():
            (self.place / path).parent.mkdir(parents=True, exist_ok=True)
            (self.place / path).write_bytes(content)
        return look_for_changes(self.place, environ or {})


@pytest.fixture
def repository(registry, tmp_path):
    repository = registry.repository(f"update/{tmp_path.name.replace('_', '-').lower()}")
    folder = tmp_path / "build"
    folder.mkdir()
    sealed = make_sealed(make_session(folder))
    with open_sink(repository) as sink:
        publish(sink, sealed, TAG)
        update_index(sink, "flux-schnell", "v3")
    return repository


@pytest.fixture
def start(repository, tmp_path):
    """Start one more server."""
    opened, count = [], iter(range(100))

    def start_one(tag="v3"):
        place = tmp_path / f"server-{next(count)}"
        console = Console(io.StringIO(), {})
        fetched = fetch(Reference(repository, tag=tag), H100, place, Access(), console)
        manager = open_sink_without_extras(repository)
        opened.append(manager)
        return Server(manager.__enter__(), place, fetched.digest)

    yield start_one
    for manager in opened:
        manager.__exit__(None, None, None)


def files_of(server):
    return {entry.path for entry in look_for_changes(server.place, {}).inventory.files}


def test_pending_leaves_the_tag_alone(start):
    server = start()
    before = server.published()
    tag = publish_pending(server.sink, before, server.compile(NEW))
    assert tag.startswith(f"{TAG}.pending-")
    assert server.published().digest == before.digest
    assert files_of(start(tag)) == {*FILES, *NEW}
    assert files_of(start()) == set(FILES)


def test_old_layers_are_referred_to(start):
    server = start()
    before = server.published()
    tag = publish_pending(server.sink, before, server.compile(NEW))
    manifest = parse_manifest(server.sink.resolve(tag))
    old = [layer.digest for layer in before.manifest.layers[1:]]
    assert [layer.digest for layer in manifest.layers[1 : 1 + len(old)]] == old
    titles = [layer.annotations["org.opencontainers.image.title"] for layer in manifest.layers]
    assert titles == ["glowplug" + "/" * position for position in range(len(titles))]


def test_direct_moves_the_tag_and_the_index(start):
    server = start()
    before = server.published()
    digest = publish_direct(server.sink, before, server.compile(NEW), sleep=lambda _s: None)
    after = server.published()
    assert after.digest == digest != before.digest
    assert files_of(start()) == {*FILES, *NEW}  # found through the index
    (update,) = after.record.updates
    assert (update.base, update.files) == (before.digest, len(NEW))
    assert update.size_bytes == sum(map(len, NEW.values()))
    assert after.record.proof == before.record.proof


def test_nothing_new_is_not_published(start):
    server = start()
    changes = server.compile({})
    assert publish_pending(server.sink, server.published(), changes) is None
    assert publish_direct(server.sink, server.published(), changes, sleep=lambda _s: None) is None
    assert server.sink.tags() == ["v3", TAG]


def test_what_another_server_published_is_not_published_again(start):
    one, two = start(), start()
    base = two.published()
    publish_direct(one.sink, one.published(), one.compile(NEW), sleep=lambda _s: None)
    assert publish_direct(two.sink, base, two.compile(NEW), sleep=lambda _s: None) == one.published().digest
    assert len(two.published().record.updates) == 1


def test_an_index_that_was_left_behind_is_brought_up_to_date(start, monkeypatch):
    """By the next server that compiles the same, since the old index led it to the old artifact."""

    def killed(*_):
        raise KeyboardInterrupt

    one = start()
    with monkeypatch.context() as patch:
        patch.setattr(update, "update_index", killed)
        with pytest.raises(KeyboardInterrupt):
            publish_direct(one.sink, one.published(), one.compile(NEW), sleep=lambda _s: None)
    two = start()
    assert files_of(two) == set(FILES)
    base = read_published(two.sink, two.digest)
    publish_direct(two.sink, base, two.compile(NEW), sleep=lambda _s: None)
    assert files_of(start()) == {*FILES, *NEW}


def test_servers_that_update_at_once_lose_nothing(start):
    servers = [start() for _ in range(4)]
    new = [{f"inductor/fxgraph/{n}/key{n}/content": b"%d" % n * 1000} for n in range(4)]
    barrier = threading.Barrier(4)

    def update(server, files):
        published, changes = server.published(), server.compile(files)
        barrier.wait(60)
        publish_direct(server.sink, published, changes)

    threads = [threading.Thread(target=update, args=pair) for pair in zip(servers, new, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert files_of(start()) == {*FILES, *(path for files in new for path in files)}


def test_many_updates_stay_within_the_layers_that_an_artifact_may_have(start):
    server = start()
    for n in range(MAX_LAYERS + 2):
        changes = server.compile({f"inductor/fxgraph/{n}/key{n}/content": b"%d" % n * 1000})
        publish_direct(server.sink, server.published(), changes, sleep=lambda _s: None)
        assert len(server.published().manifest.layers) <= MAX_LAYERS
    assert len(files_of(start())) == len(FILES) + MAX_LAYERS + 2


def test_a_server_that_lacks_entries_cannot_pack_anew(start):
    one, two = start(), start()
    for n in range(MAX_LAYERS - len(one.published().manifest.layers)):
        changes = one.compile({f"inductor/fxgraph/{n}/key{n}/content": b"%d" % n * 1000})
        publish_direct(one.sink, one.published(), changes, sleep=lambda _s: None)
    with pytest.raises(GlowplugError, match="cannot pack them anew"):
        publish_direct(two.sink, two.published(), two.compile(NEW), sleep=lambda _s: None)


def test_a_secret_is_not_published(start):
    server = start()
    secret = "hunter2-hunter2"
    changes = server.compile(
        {"inductor/fxgraph/zz/new/content": f"graph {secret}".encode()}, {"API_TOKEN": secret}
    )
    with pytest.raises(
        GlowplugError, match="the value of API_TOKEN is in the new cache file inductor/fxgraph/zz"
    ):
        publish_direct(server.sink, server.published(), changes)
    assert server.sink.tags() == ["v3", TAG]
