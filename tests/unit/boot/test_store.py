import hashlib
import io
import json
import multiprocessing
import os
import threading
import time
from io import BytesIO

import pytest

from glowplug.boot.collection import Limits
from glowplug.boot.receipt import Receipt
from glowplug.boot.store import Store, open_store
from glowplug.core.oci import LAYER_TYPE, Descriptor, digest_of
from glowplug.errors import IntegrityError, UsageError
from glowplug.registry.source import ignore
from glowplug.report.console import Console

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
    store = Store(tmp_path / "store", Limits(max_bytes=2_500))
    store.prepare()
    contents = [bytes([n]) * 1_000 for n in range(4)]
    for number, content in enumerate(contents):
        store.add(digest_of(content), [content])
        used = time.time() - 1_000 + number
        os.utime(store.blob(digest_of(content)), (used, used))
    assert read(store, Descriptor(LAYER_TYPE, digest_of(contents[0]), 1_000)) == contents[0]  # used just now
    assert store.collect() == 2_000
    assert names(store) == sorted(hashlib.sha256(contents[n]).hexdigest() for n in (0, 3))


def test_who_reads_a_blob_keeps_it(tmp_path):
    store = Store(tmp_path / "store", Limits(max_bytes=0))
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
    for folder in ("blobs/sha256", "refs", "receipts"):
        (store.root / folder / ".partial-old").write_bytes(b"1234")
        (store.root / folder / ".partial-new").write_bytes(b"1234")
        os.utime(store.root / folder / ".partial-old", (1_000, 1_000))
    store.collect()
    assert {path.name for path in store.root.rglob(".partial-*")} == {".partial-new"}
    assert len(list(store.root.rglob(".partial-*"))) == 3


def add_used(store, number, days_ago):
    """Add a blob that was used last so many days ago, and a tag that points to it."""
    content = bytes([number]) * 1_000
    digest = digest_of(content)
    store.add(digest, [content])
    store.remember(f"host/a:{number}", digest)
    used = time.time() - days_ago * 24 * 3600
    os.utime(store.blob(digest), (used, used))
    return digest


def test_what_nobody_used_for_long_goes_with_its_tag(tmp_path):
    store = Store(tmp_path / "store", Limits(max_age_s=30 * 24 * 3600))
    store.prepare()
    old, recent = add_used(store, 1, days_ago=31), add_used(store, 2, days_ago=29)
    assert store.collect() == 1_000
    assert names(store) == [recent.removeprefix("sha256:")]
    assert (store.recall("host/a:1"), store.recall("host/a:2")) == (None, recent)
    assert len(list((store.root / "refs").iterdir())) == 1
    assert old != recent


def test_to_read_a_document_is_to_use_it(store):
    digest = add_used(store, 1, days_ago=1_000)
    assert store.read_document(digest)
    assert store.collect() == 0


def test_a_store_that_is_collected_by_others_meanwhile(store, monkeypatch):
    for number in range(4):
        add_used(store, number, days_ago=1_000)
    unlink = os.unlink

    def twice(path):
        unlink(path)
        unlink(path)

    monkeypatch.setattr("os.unlink", twice)
    assert store.collect() == 0
    assert names(store) == []
    assert Store(store.root / "absent").collect() == 0


def receipt(time_s=1_767_323_045.0):
    return Receipt("host/a:v1", DIGEST, "h100-sm90", {"store": 10, "host": 20}, time_s)


def test_a_receipt_is_plain_json(store):
    store.file_receipt(receipt())
    (path,) = (store.root / "receipts").iterdir()
    assert path.name.startswith(f"20260102T030405Z-{DIGEST[7:19]}-")
    assert path.stat().st_mode & 0o777 == 0o644
    written = json.loads(path.read_bytes())
    assert written.pop("glowplug")
    assert written == {
        "reference": "host/a:v1",
        "digest": DIGEST,
        "target": "h100-sm90",
        "created": "2026-01-02T03:04:05Z",
        "bytes_from": {"store": 10, "host": 20},
    }


def test_the_latest_receipts_stay(store, monkeypatch):
    monkeypatch.setattr("glowplug.boot.collection._MAX_RECEIPTS", 3)
    for number in (5, 1, 4, 2, 3):
        store.file_receipt(receipt(number))
    store.collect()
    stamps = sorted(path.name[:16] for path in (store.root / "receipts").iterdir())
    assert stamps == [f"19700101T00000{number}Z" for number in (3, 4, 5)]


def test_the_limits_are_settings(tmp_path):
    said = io.StringIO()
    environ = {"GLOWPLUG_STORE_MAX_BYTES": "25e9", "GLOWPLUG_STORE_MAX_AGE_DAYS": "7"}
    assert open_store(tmp_path, environ, Console(said, {}))._limits == Limits(25e9, 7 * 24 * 3600)
    assert open_store(None, environ, Console(said, {})) is None
    assert said.getvalue() == ""


@pytest.mark.parametrize("text", ["20G", "-1", "nan", "inf", "many"])
def test_a_limit_that_is_none_is_said_and_ignored(tmp_path, text):
    said = io.StringIO()
    environ = {"GLOWPLUG_STORE_MAX_BYTES": text, "GLOWPLUG_STORE_MAX_AGE_DAYS": text}
    assert open_store(tmp_path, environ, Console(said, {}))._limits == Limits()
    assert f"GLOWPLUG_STORE_MAX_BYTES is no number of bytes: {text}; using 20000000000" in said.getvalue()
    assert f"GLOWPLUG_STORE_MAX_AGE_DAYS is no number of days: {text}; using 90" in said.getvalue()


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
