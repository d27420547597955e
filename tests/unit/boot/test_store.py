import hashlib
import multiprocessing
import os
import threading
import time
from io import BytesIO

import pytest

from glowplug.boot.store import Store
from glowplug.core.oci import LAYER_TYPE, Descriptor, digest_of
from glowplug.errors import IntegrityError, UsageError
from glowplug.registry.source import ignore

CONTENT = b"kernel" * 1000
DIGEST = digest_of(CONTENT)
BLOB = Descriptor(LAYER_TYPE, DIGEST, len(CONTENT))


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "store")
    assert store.prepare()
    return store


def read(store, descriptor=BLOB):
    file = BytesIO()
    return file.getvalue() if store.copy_blob(descriptor, file, ignore) else None


def names(store):
    return sorted(item.name for item in (store.root / "blobs" / "sha256").iterdir())


def test_a_blob_comes_back(store):
    assert read(store) is None
    store.add(DIGEST, [CONTENT[:100], CONTENT[100:]])
    assert read(store) == CONTENT
    assert store.blob(DIGEST).stat().st_mode & 0o777 == 0o644


def test_a_blob_that_breaks_off_leaves_nothing(store):
    def broken():
        yield CONTENT[:100]
        raise IntegrityError("other bytes")

    with pytest.raises(IntegrityError):
        store.add(DIGEST, broken())
    assert names(store) == []


@pytest.mark.parametrize("damaged", [CONTENT[:-1], CONTENT[:-1] + b"X", b"", CONTENT + b"X"])
def test_a_damaged_blob_is_removed(store, damaged):
    store.add(DIGEST, [damaged])
    assert read(store) is None
    assert names(store) == []


def test_a_link_is_no_blob(store, tmp_path):
    (tmp_path / "elsewhere").write_bytes(CONTENT)
    store.blob(DIGEST).symlink_to(tmp_path / "elsewhere")
    assert read(store) is None


@pytest.mark.parametrize("digest", ["sha256:../../../etc/passwd", "latest", "sha256:" + "A" * 64])
def test_only_a_digest_names_a_blob(store, digest):
    with pytest.raises(IntegrityError, match="is no digest"):
        store.blob(digest)


def test_a_document_is_checked_when_read(store):
    store.add(DIGEST, [CONTENT])
    assert store.read_document(DIGEST) == CONTENT
    store.blob(DIGEST).write_bytes(CONTENT[:-1] + b"X")
    assert store.read_document(DIGEST) is None


def test_what_a_tag_pointed_to_is_remembered(store):
    assert store.recall("host/a:v1") is None
    store.remember("host/a:v1", DIGEST)
    store.remember("host/a:v2", digest_of(b"2"))
    assert (store.recall("host/a:v1"), store.recall("host/a:v2")) == (DIGEST, digest_of(b"2"))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"digest": "sha256:../x"}', b'{"digest": 1}'])
def test_a_damaged_ref_is_no_ref(store, content):
    store.remember("host/a:v1", DIGEST)
    (ref,) = (store.root / "refs").iterdir()
    ref.write_bytes(content)
    assert store.recall("host/a:v1") is None


def test_the_least_used_go_first(tmp_path):
    store = Store(tmp_path / "store", max_bytes=2_500)
    store.prepare()
    contents = [bytes([n]) * 1_000 for n in range(4)]
    for age, content in enumerate(contents):
        store.add(digest_of(content), [content])
        os.utime(store.blob(digest_of(content)), (1_000 + age, 1_000 + age))
    assert read(store, Descriptor(LAYER_TYPE, digest_of(contents[0]), 1_000)) == contents[0]  # used just now
    assert store.collect() == 2_000
    assert names(store) == sorted(hashlib.sha256(contents[n]).hexdigest() for n in (0, 3))


def test_who_reads_a_blob_keeps_it(tmp_path):
    store = Store(tmp_path / "store", max_bytes=0)
    store.prepare()
    content = bytes(3_000_000)
    store.add(digest_of(content), [content])
    file = BytesIO()
    removed = []
    assert store.copy_blob(
        Descriptor(LAYER_TYPE, digest_of(content), len(content)),
        file,
        lambda _: removed.append(store.collect()),
    )
    assert removed == [3_000_000, 0, 0]
    assert file.getvalue() == content


def test_what_a_killed_download_left_is_collected_a_day_later(store):
    folder = store.root / "blobs" / "sha256"
    (folder / ".partial-old").write_bytes(b"1234")
    (folder / ".partial-new").write_bytes(b"1234")
    os.utime(folder / ".partial-old", (1_000, 1_000))
    assert store.collect() == 4
    assert names(store) == [".partial-new"]


def hold(store, digest, started, seconds):
    with store.single_flight(digest):
        started.set()
        time.sleep(seconds)


def test_one_process_waits_for_the_other(store):
    started = multiprocessing.get_context("spawn").Event()
    holder = multiprocessing.get_context("spawn").Process(target=hold, args=(store, DIGEST, started, 30))
    holder.start()
    assert started.wait(60)
    entered = threading.Event()
    waiter = threading.Thread(
        target=lambda: [None for _ in [store.single_flight(DIGEST).__enter__()] if entered.set()]
    )
    waiter.start()
    assert not entered.wait(0.3)
    holder.kill()  # a lock ends with its process
    holder.join()
    assert entered.wait(60)
    waiter.join()


def test_waiting_ends(store):
    with store.single_flight(DIGEST), store.single_flight(DIGEST, wait_s=0.1):
        pass


def test_a_file_system_without_locks_costs_only_bandwidth(store, monkeypatch):
    def refuse(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with store.single_flight(DIGEST), store.single_flight(DIGEST):
        pass


def test_a_file_cannot_be_a_store(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is not a folder"):
        Store(tmp_path / "file").prepare()
