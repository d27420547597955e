from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from glowplug.core.oci import LAYER_TYPE, MANIFEST_TYPE, Descriptor, Document, digest_of, encode
from glowplug.core.reference import LayoutRepository
from glowplug.errors import DeniedError, IntegrityError, NotFoundError, UnavailableError, UsageError
from glowplug.registry import layout
from glowplug.registry.layout import Layout
from glowplug.registry.source import read_blob

DOCUMENT = Document(MANIFEST_TYPE, encode({"schemaVersion": 2, "mediaType": MANIFEST_TYPE}))
BLOB = b"blob" * 1000
DESCRIPTOR = Descriptor(LAYER_TYPE, digest_of(BLOB), len(BLOB))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "layout"


@pytest.fixture
def folder(root: Path) -> Layout:
    return Layout(LayoutRepository(str(root)))


def stored(root: Path, digest: str) -> Path:
    return root / "blobs" / "sha256" / digest.removeprefix("sha256:")


def put_blob(folder: Layout, tmp_path: Path) -> None:
    path = tmp_path / "blob"
    path.write_bytes(BLOB)
    folder.put_blob(DESCRIPTOR, path)


def test_the_files_are_those_of_the_image_spec(folder: Layout, root: Path) -> None:
    folder.put_document(DOCUMENT, "v1")
    assert json.loads((root / "oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}
    assert stored(root, DOCUMENT.digest).read_bytes() == DOCUMENT.raw
    index = json.loads((root / "index.json").read_bytes())
    assert index["schemaVersion"] == 2
    assert index["manifests"] == [
        {
            "mediaType": MANIFEST_TYPE,
            "digest": DOCUMENT.digest,
            "size": len(DOCUMENT.raw),
            "annotations": {"org.opencontainers.image.ref.name": "v1"},
        }
    ]


def test_entries_of_other_tools_are_kept(folder: Layout, root: Path) -> None:
    folder.check_push()
    foreign = {"mediaType": "x/y", "digest": "sha256:" + "0" * 64, "size": 1, "unknown": [1]}
    (root / "index.json").write_bytes(encode({"schemaVersion": 2, "manifests": [foreign], "extra": True}))
    folder.put_document(DOCUMENT, "v1")
    index = json.loads((root / "index.json").read_bytes())
    assert index["manifests"][0] == foreign
    assert index["extra"] is True
    assert folder.tags() == ["v1"]


@pytest.mark.parametrize("damage", [b"", BLOB[:-1], BLOB + b"!", b"B" + BLOB[1:]])
def test_a_tampered_blob_is_found_when_it_is_read(
    folder: Layout, root: Path, tmp_path: Path, damage: bytes
) -> None:
    put_blob(folder, tmp_path)
    stored(root, DESCRIPTOR.digest).write_bytes(damage)
    with pytest.raises(IntegrityError, match=DESCRIPTOR.digest):
        read_blob(folder, DESCRIPTOR)


def test_a_truncated_blob_is_replaced_by_the_next_push(folder: Layout, root: Path, tmp_path: Path) -> None:
    put_blob(folder, tmp_path)
    stored(root, DESCRIPTOR.digest).write_bytes(b"")
    put_blob(folder, tmp_path)
    assert read_blob(folder, DESCRIPTOR) == BLOB


def test_a_tampered_manifest_is_found(folder: Layout, root: Path) -> None:
    folder.put_document(DOCUMENT, "v1")
    stored(root, DOCUMENT.digest).write_bytes(b"{}")
    with pytest.raises(IntegrityError, match=DOCUMENT.digest):
        folder.resolve("v1")


@pytest.mark.parametrize("content", [b"{", b"[]", b"{}", b'{"manifests":{}}', b'{"manifests":["x"]}'])
def test_a_damaged_index_is_no_empty_one(folder: Layout, root: Path, content: bytes) -> None:
    folder.check_push()
    (root / "index.json").write_bytes(content)
    with pytest.raises(IntegrityError, match=r"index\.json"):
        folder.tags()
    with pytest.raises(IntegrityError, match=r"index\.json"):
        folder.put_document(DOCUMENT, "v1")
    assert (root / "index.json").read_bytes() == content


@pytest.mark.parametrize("digest", ["../../../etc/passwd", "sha256:../../../etc/passwd", "sha512:00", ""])
def test_no_digest_leads_out_of_the_folder(folder: Layout, root: Path, digest: str) -> None:
    folder.check_push()
    with pytest.raises(UsageError, match="not a sha256 digest"):
        folder.has_blob(digest)
    with pytest.raises(UsageError, match="not a sha256 digest"):
        read_blob(folder, Descriptor(LAYER_TYPE, digest, 1))
    entry = {"digest": digest, "annotations": {"org.opencontainers.image.ref.name": "v1"}}
    (root / "index.json").write_bytes(encode({"schemaVersion": 2, "manifests": [entry]}))
    with pytest.raises(NotFoundError):
        folder.resolve("v1")


def test_the_missing_tag_and_the_present_ones_are_named(folder: Layout) -> None:
    folder.put_document(DOCUMENT, "v1")
    with pytest.raises(NotFoundError, match="no v2") as caught:
        folder.resolve("v2")
    assert "v1" in caught.value.hint


def test_a_folder_with_other_things_in_it_is_left_alone(folder: Layout, root: Path) -> None:
    root.mkdir()
    (root / "thesis.txt").write_text("precious")
    with pytest.raises(UsageError, match=r"thesis\.txt"):
        folder.check_push()
    assert [path.name for path in root.iterdir()] == ["thesis.txt"]


def test_a_path_that_cannot_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    below = Layout(LayoutRepository(str(tmp_path / "file" / "layout")))
    with pytest.raises(UsageError, match="cannot create oci:"):
        below.check_push()


def test_a_folder_that_may_not_be_written(folder: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    folder.check_push()
    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(DeniedError, match="Permission denied"):
        folder.check_push()


def test_nothing_half_written_stays(folder: Layout, root: Path, tmp_path: Path) -> None:
    folder.check_push()
    path = tmp_path / "wrong"
    path.write_bytes(b"wrong")
    with pytest.raises(IntegrityError):
        folder.put_blob(DESCRIPTOR, path)
    assert list((root / "blobs" / "sha256").iterdir()) == []


KILLED = (
    "import os; from pathlib import Path; from glowplug.registry.layout import _replacing\n"
    "with _replacing(Path({path!r})) as file: file.write(b'half'); os._exit(9)"
)


def test_what_killed_writers_left_is_removed_a_day_later(folder: Layout, root: Path) -> None:
    folder.check_push()
    blobs = root / "blobs" / "sha256"
    for path in (root / "index.json", blobs / ("0" * 64)):
        subprocess.run([sys.executable, "-c", KILLED.format(path=str(path))], check=False)
    (root / ".notes.12345678").write_text("somebody's")
    left = [path for path in (*root.glob(".*"), *blobs.glob(".*")) if "notes" not in path.name]
    assert len(left) == 2
    Layout(LayoutRepository(str(root))).check_push()
    assert all(path.exists() for path in left)  # they may be another writer's
    for path in (*left, root / ".notes.12345678"):
        os.utime(path, (1_000_000, 1_000_000))
    Layout(LayoutRepository(str(root))).check_push()
    assert [path.name for path in (*root.glob(".*"), *blobs.glob(".*"))] == [".notes.12345678"]


def test_files_can_be_read_by_others(folder: Layout, root: Path, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        put_blob(folder, tmp_path)
    finally:
        os.umask(before)
    assert stored(root, DESCRIPTOR.digest).stat().st_mode & 0o777 == 0o644


def test_a_lock_that_is_never_released(folder: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.check_push()
    monkeypatch.setattr(layout, "_LOCK_TIMEOUT_S", 0.05)
    with folder._locked(), pytest.raises(UnavailableError, match="locked"):
        folder.put_document(DOCUMENT, "v1")


TAGGER = """
import sys
from glowplug.core.oci import Document, MANIFEST_TYPE, encode
from glowplug.core.reference import LayoutRepository
from glowplug.registry.layout import Layout

folder = Layout(LayoutRepository(sys.argv[1]))
sys.stdin.read()  # all start together
for number in range(10):
    document = Document(MANIFEST_TYPE, encode({"schemaVersion": 2, "by": sys.argv[2], "number": number}))
    folder.put_document(document, f"{sys.argv[2]}-{number}")
"""


def test_concurrent_processes_lose_no_tag(folder: Layout, root: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", TAGGER, str(root), str(number)], stdin=subprocess.PIPE)
        for number in range(6)
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()
    assert [writer.wait() for writer in writers] == [0] * 6
    assert folder.tags() == sorted(f"{a}-{b}" for a in range(6) for b in range(10))
    for tag in folder.tags():
        assert folder.resolve(tag).raw
    leftovers = [path.name for path in root.iterdir()]
    assert sorted(leftovers) == ["blobs", "index.json", "index.json.lock", "oci-layout"]
