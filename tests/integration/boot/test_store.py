"""The node's store before a real registry: what goes over the network, and what does not."""

import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from glowplug.boot import access as access_module
from glowplug.boot.access import Access, open_repository
from glowplug.boot.collection import Limits
from glowplug.boot.fetch import fetch
from glowplug.boot.store import Store
from glowplug.core.reference import Reference
from glowplug.errors import NotFoundError, UnavailableError
from glowplug.registry.cache_index import update_index
from glowplug.registry.client import RegistrySource
from glowplug.registry.options import Options
from glowplug.registry.sink import open_sink
from glowplug.report.console import Console
from unit.artifacts import make_sealed, make_session, publish
from unit.samples import H100


@pytest.fixture
def requests(monkeypatch):
    """What is asked of the registry, as words."""
    asked = []
    resolve, copy_blob = RegistrySource.resolve, RegistrySource.copy_blob

    def noted_resolve(self, selector):
        asked.append(selector)
        return resolve(self, selector)

    def noted_copy(self, descriptor, *rest):
        asked.append(descriptor.digest)
        copy_blob(self, descriptor, *rest)

    monkeypatch.setattr(RegistrySource, "resolve", noted_resolve)
    monkeypatch.setattr(RegistrySource, "copy_blob", noted_copy)
    return asked


@pytest.fixture
def artifact(registry, tmp_path):
    """An artifact in the registry, and its version's index."""
    repository = registry.repository(f"store/{tmp_path.name.replace('_', '-').lower()}")
    folder = tmp_path / "build"
    folder.mkdir()
    sealed = make_sealed(make_session(folder))
    with open_sink(repository) as sink:
        publish(sink, sealed, f"v3-{H100.gpu_type}")
        index, _ = update_index(sink, "flux-schnell", "v3")
    return Reference(repository, tag="v3"), index.digest, sealed


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def fetch_to(folder: Path, reference: Reference, access: Access):
    said = io.StringIO()
    fetched = fetch(reference, H100, folder, access, Console(said, {}))
    return fetched, said.getvalue()


def test_a_second_fetch_only_asks_for_the_tag(artifact, store, requests, tmp_path):
    reference, _, sealed = artifact
    first, _ = fetch_to(tmp_path / "one", reference, Access(store=store))
    assert len(requests) == len(set(requests)) == 3 + len(sealed.manifest.layers)
    requests.clear()
    second, _ = fetch_to(tmp_path / "two", reference, Access(store=store))
    assert requests == ["v3"]
    assert (first.digest, second.digest) == (sealed.document.digest, sealed.document.digest)
    assert contents(tmp_path / "one", "inductor") == contents(tmp_path / "two", "inductor")


def contents(folder, below):
    return {
        path.relative_to(folder): path.read_bytes() for path in (folder / below).rglob("*") if path.is_file()
    }


def receipts_of(store):
    return [json.loads(path.read_bytes()) for path in sorted((store.root / "receipts").iterdir())]


def test_a_receipt_says_where_an_artifact_came_from(artifact, store, tmp_path):
    reference, _, sealed = artifact
    blobs = {descriptor.digest: descriptor for descriptor, _ in sealed.blobs}
    total = sum(descriptor.size_bytes for descriptor in blobs.values())
    fetch_to(tmp_path / "one", reference, Access(store=store))
    (first,) = receipts_of(store)
    assert first["bytes_from"] == {reference.repository.host: total}
    assert (first["reference"], first["digest"]) == (str(reference), sealed.document.digest)
    fetch_to(tmp_path / "two", reference, Access(store=store))
    assert {"store": total} in [receipt["bytes_from"] for receipt in receipts_of(store)]


def test_a_receipt_names_the_mirror(artifact, store, registry, tmp_path, monkeypatch):
    reference, _, _ = artifact
    mirror = registry.host.replace("127.0.0.1", "localhost")
    monkeypatch.setenv("GLOWPLUG_MIRRORS", mirror)
    fetch_to(tmp_path / "one", reference, Access(store=store))
    (receipt,) = receipts_of(store)
    assert list(receipt["bytes_from"]) == [mirror]


def test_offline_nothing_is_collected(artifact, store, tmp_path):
    """It could not be fetched again."""
    reference, _, _ = artifact
    fetch_to(tmp_path / "one", reference, Access(store=store))
    full = Store(store.root, Limits(max_bytes=0, max_age_s=0))
    for number in range(2):
        fetch_to(tmp_path / f"offline-{number}", reference, Access(store=full, offline=True))
    fetch_to(tmp_path / "online", reference, Access(store=full))
    assert list((store.root / "blobs" / "sha256").iterdir()) == list((store.root / "refs").iterdir()) == []


def test_a_warm_start_writes_nothing_again(artifact, store, tmp_path):
    reference, _, _ = artifact
    fetch_to(tmp_path / "one", reference, Access(store=store))
    before = {path: path.stat().st_ino for path in store.root.rglob("*") if "receipts" not in path.parts}
    fetch_to(tmp_path / "two", reference, Access(store=store))
    after = {path: path.stat().st_ino for path in store.root.rglob("*") if "receipts" not in path.parts}
    assert before == after


def test_a_pinned_digest_asks_for_nothing(artifact, store, requests, tmp_path):
    reference, index_digest, _ = artifact
    pinned = Reference(reference.repository, tag="v3", digest=index_digest)
    fetch_to(tmp_path / "one", pinned, Access(store=store))
    requests.clear()
    fetch_to(tmp_path / "two", pinned, Access(store=store))
    assert requests == []


def test_offline_takes_what_the_node_saw_last(artifact, store, requests, tmp_path):
    reference, _, _ = artifact
    fetch_to(tmp_path / "one", reference, Access(store=store))
    requests.clear()
    _, said = fetch_to(tmp_path / "two", reference, Access(store=store, offline=True))
    assert (requests, "last" in said) == ([], False)  # it was asked for: nothing to say


def test_offline_without_having_seen_it(artifact, store, tmp_path):
    with pytest.raises(UnavailableError, match="does not hold v3 of"):
        fetch_to(tmp_path / "one", artifact[0], Access(store=store, offline=True))


def test_offline_without_a_store(artifact, tmp_path):
    with pytest.raises(UnavailableError, match="offline without a store"):
        fetch_to(tmp_path / "one", artifact[0], Access(offline=True))


def test_a_registry_that_is_down_is_done_without(artifact, store, tmp_path, monkeypatch):
    reference, _, _ = artifact
    fetch_to(tmp_path / "one", reference, Access(store=store))

    def down(self, selector):
        raise UnavailableError("the registry does not answer")

    monkeypatch.setattr(RegistrySource, "resolve", down)
    _, said = fetch_to(tmp_path / "two", reference, Access(store=store))
    assert "the registry does not answer; going on with" in said


def test_a_tag_that_is_gone_is_gone(artifact, store, tmp_path, monkeypatch):
    """What the registry denies is not what it cannot say: an artifact may have been withdrawn."""
    reference, _, _ = artifact
    fetch_to(tmp_path / "one", reference, Access(store=store))

    def gone(self, selector):
        raise NotFoundError("no such tag")

    monkeypatch.setattr(RegistrySource, "resolve", gone)
    with pytest.raises(NotFoundError):
        fetch_to(tmp_path / "two", reference, Access(store=store))


def test_a_damaged_blob_is_fetched_again(artifact, store, requests, tmp_path):
    reference, _, sealed = artifact
    fetch_to(tmp_path / "one", reference, Access(store=store))
    layer = sealed.manifest.layers[1]
    path = store.blob(layer.digest)
    path.write_bytes(path.read_bytes()[:-1] + b"X")
    requests.clear()
    fetch_to(tmp_path / "two", reference, Access(store=store))
    assert requests == ["v3", layer.digest]
    assert contents(tmp_path / "one", "inductor") == contents(tmp_path / "two", "inductor")


def test_fifty_at_once_download_once(artifact, store, requests, tmp_path):
    reference, _, sealed = artifact
    barrier = threading.Barrier(50)

    def one(number):
        barrier.wait(60)
        return fetch_to(tmp_path / f"to-{number}", reference, Access(store=store))[0].files

    with ThreadPoolExecutor(50) as pool:
        assert set(pool.map(one, range(50))) == {len(sealed.inventory.files) + 3}
    blobs = [digest for digest in requests if digest in {d.digest for d, _ in sealed.blobs}]
    assert sorted(blobs) == sorted(descriptor.digest for descriptor, _ in sealed.blobs)


def test_a_store_that_cannot_be_written_is_no_hindrance(artifact, store, requests, tmp_path, monkeypatch):
    monkeypatch.setattr(Store, "prepare", lambda self: False)
    _, said = fetch_to(tmp_path / "one", artifact[0], Access(store=store))
    assert not store.root.exists()
    assert "warning" not in said


def test_a_full_store_is_no_hindrance(artifact, store, tmp_path, monkeypatch):
    def full(self, digest, chunks):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Store, "add", full)
    fetched, said = fetch_to(tmp_path / "one", artifact[0], Access(store=store))
    assert fetched.files
    assert "cannot be written: No space left on device" in said


def test_a_layout_folder_needs_no_store(tmp_path, store):
    folder = tmp_path / "build"
    folder.mkdir()
    session = make_session(folder)
    sealed = make_sealed(session)
    with open_sink(session.spec.artifact) as sink:
        publish(sink, sealed, "v3")
    fetch_to(tmp_path / "one", Reference(session.spec.artifact, tag="v3"), Access(store=store, offline=True))
    assert not store.root.exists()


def test_the_budget_is_the_connection_s(artifact, store):
    access = Access(Options(timeout_s=1e-9), store)
    with (
        open_repository(artifact[0].repository, access, lambda _text: None) as source,
        pytest.raises(UnavailableError, match="did not finish within"),
    ):
        source.resolve("v3")
    assert access_module.DEFAULT.timeout_s is None
