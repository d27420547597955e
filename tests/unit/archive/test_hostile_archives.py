"""Whatever a registry sends: an IntegrityError, and nothing on disk."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glowplug.archive import inflate
from glowplug.archive.limits import Limits
from glowplug.archive.unpack import Layer, unpack
from glowplug.core.oci import Descriptor, digest_of
from glowplug.errors import IntegrityError
from unit.archive.tars import Item, arriving, file, folder, in_chunks, layer, link, patched, pax, tar

LONG = "glowplug/" + "n" * 120
GOOD = tar(file("glowplug/record.json"))
PACKED = gzip.compress(GOOD, mtime=0)
TINY = Limits(
    entries=4,
    total_bytes=100_000,
    file_bytes=20_000,
    rewritten_bytes=100,
    ratio=50,
    ratio_floor_bytes=30_000,
    name_bytes=150,
    path_bytes=200,
    depth=4,
)

ENTRIES = {
    "not below 'glowplug/'": {
        "absolute path": [file("/etc/cron.d/x")],
        "parent folder": [file("glowplug/../../x")],
        "this folder": [file("glowplug/./x")],
        "empty component": [file("glowplug//x")],
        "beside the artifact's folder": [file("other")],
        "prefix of the artifact's folder": [file("glowplug-evil")],
        "file with a trailing slash": [patched(file("glowplug/x"), 10, b"/")],
        "pax path that climbs late": [pax({"path": f"{LONG}/../../../x"}, file(LONG[:100]))],
    },
    "comes before the folder": {
        "file before its folder": [file("glowplug/triton/x")],
        "write through a link": [folder("glowplug/d"), link("glowplug/x", "d"), file("glowplug/x/y")],
    },
    "no file of the artifact": {
        "link to an absolute path": [link("glowplug/x", "/etc/passwd")],
        "link out of the artifact": [link("glowplug/x", "../../../etc/passwd")],
        "link out and in again": [file("glowplug/a"), link("glowplug/x", "../glowplug/a")],
        "link to a folder": [folder("glowplug/d"), link("glowplug/x", "d")],
        "link to nothing": [link("glowplug/x", "missing")],
        "link to a link": [file("glowplug/a"), link("glowplug/b", "a"), link("glowplug/c", "b")],
        "link to itself": [link("glowplug/x", "x")],
    },
    "occurs twice": {
        "link, then file": [file("glowplug/a"), link("glowplug/x", "a"), file("glowplug/x")],
        "file, then folder": [file("glowplug/x"), folder("glowplug/x")],
        "file twice": [file("glowplug/x"), file("glowplug/x")],
        "folder twice": [folder("glowplug/x"), folder("glowplug/x")],
        "the artifact's folder twice": [folder("glowplug")],
    },
    "other than a file, a folder or a symbolic link": {
        "hard link": [file("glowplug/a"), Item("glowplug/x", tarfile.LNKTYPE, target="glowplug/a")],
        "character device": [Item("glowplug/x", tarfile.CHRTYPE)],
        "block device": [Item("glowplug/x", tarfile.BLKTYPE)],
        "fifo": [Item("glowplug/x", tarfile.FIFOTYPE)],
        "contiguous file": [Item("glowplug/x", tarfile.CONTTYPE)],
        "GNU sparse file": [patched(file("glowplug/x"), 156, b"S")],
        "pax global header": [patched(file("glowplug/x", b"20 path=glowplug/xx\n"), 156, b"g")],
    },
    "set-id or sticky": {
        "set-user-id": [file("glowplug/x", mode=0o4755)],
        "set-group-id": [file("glowplug/x", mode=0o2755)],
        "sticky": [file("glowplug/x", mode=0o1644)],
    },
    "its type cannot have": {
        "link with content": [file("glowplug/a"), patched(link("glowplug/x", "a"), 124, b"00000001000")],
        "folder with content": [patched(folder("glowplug/x"), 124, b"00000001000")],
        "file with a target": [patched(file("glowplug/x"), 157, b"a")],
    },
    "not UTF-8": {"name": [patched(file("glowplug/x"), 9, b"\xff")]},
    "cannot be shown": {
        "terminal escape": [file("glowplug/\x1b[2J")],
        "newline": [file("glowplug/x\n")],
    },
    "renames": {
        "pax path": [pax({"path": "glowplug/../../x"}, file("glowplug/x"))],
        "pax path, long": [pax({"path": "../" + "x" * 120}, file("glowplug/x"))],
        "pax path of another file": [pax({"path": "glowplug/" + "x" * 120}, file("glowplug/" + "y" * 91))],
        "pax link path": [file("glowplug/a"), pax({"linkpath": "a"}, link("glowplug/x", "b"))],
    },
    "which artifacts do not use": {
        "pax size": [pax({"size": "1"}, file("glowplug/x"))],
        "pax owner": [pax({"uid": "0"}, file("glowplug/x"))],
        "pax sparse": [pax({"GNU.sparse.major": "1", "GNU.sparse.realsize": "9999"}, file("glowplug/x"))],
        "pax attribute": [pax({"SCHILY.xattr.security.capability": "x"}, file("glowplug/x"))],
    },
    "pax header that": {
        "pax header of nonsense": [patched(file("glowplug/x", b"not a record"), 156, b"x")],
        "pax record of negative length": [patched(file("glowplug/x", b"-9 path=x\n"), 156, b"x")],
        "pax header, too large": [patched(file("glowplug/x", bytes(17_000)), 156, b"x")],
        "pax path twice": [patched(file("glowplug/x", b"10 path=x\n10 path=y\n"), 156, b"x")],
    },
    "not POSIX ustar": {
        "GNU long name": [Item(LONG).encode(tarfile.GNU_FORMAT)],
        "GNU magic": [file("glowplug/x").encode(tarfile.GNU_FORMAT)],
        "content longer than its size": [patched(file("glowplug/x", b"a" * 2000), 124, b"00000000001")],
    },
    "not octal": {
        "binary size": [patched(file("glowplug/x"), 124, b"\x80" + bytes(10) + b"\x07")],
        "hexadecimal size": [patched(file("glowplug/x"), 124, b"0x000000007")],
        "negative size": [patched(file("glowplug/x"), 124, b"-0000000007")],
        "size with underscores": [patched(file("glowplug/x"), 124, b"00000_00007")],
    },
    "wrong checksum": {"name": [patched(file("glowplug/x"), 9, b"z", mend_checksum=False)]},
    "ends in the middle": {
        "content shorter than its size": [patched(file("glowplug/x"), 124, b"00000077777")],
    },
}

ARCHIVES = {
    "is no folder": {"the artifact's folder is a file": file("glowplug").encode() + bytes(1024)},
    "comes before the folder": {"no folder": file("glowplug/x").encode() + bytes(1024)},
    "holds nothing": {"nothing at all": bytes(1024)},
    "ends in the middle": {
        "no bytes": b"",
        "no end": tar(file("glowplug/x"), end=b""),
        "half an end": tar(file("glowplug/x"), end=bytes(512)),
        "cut in a header": tar(file("glowplug/x"))[:700],
        "cut in a content": tar(file("glowplug/x", b"a" * 2000))[:1900],
    },
    "goes on": {
        "entries after the end": tar(file("glowplug/x")) + file("glowplug/y").encode() + bytes(1024),
        "one empty block, then more": tar(bytes(512), file("glowplug/x")),
        "bytes after the end": tar(file("glowplug/x")) + b"x",
    },
}

LIMITED = {
    "entries": tar(*(file(f"glowplug/{n}") for n in range(4))),
    "bytes of one file": tar(file("glowplug/x", bytes(range(256)) * 80)),
    "bytes in all": tar(*(file(f"glowplug/{n}", b"".join(b"%d" % i for i in range(7000))) for n in range(3)))
    + bytes(40_000),
    "ratio": tar(file("glowplug/x", bytes(15_000)), file("glowplug/y", bytes(15_000))),
    "padding as a bomb": tar(file("glowplug/x")) + bytes(60_000),
    "length of a name": tar(pax({"path": "glowplug/" + "n" * 151}, file(("glowplug/" + "n" * 151)[:100]))),
    "length of a path": tar(
        folder("glowplug/" + "d" * 90),
        pax({"path": f"glowplug/{'d' * 90}/{'n' * 101}"}, file(f"glowplug/{'d' * 90}/")),
    ),
    "depth": tar(
        folder("glowplug/a"), folder("glowplug/a/b"), folder("glowplug/a/b/c"), folder("glowplug/a/b/c/d")
    ),
}


def cases(table: dict[str, dict[str, Any]]) -> list[Any]:
    """Return every case of a table whose outer keys are the reasons."""
    return [
        pytest.param(value, match, id=name) for match, group in table.items() for name, value in group.items()
    ]


@pytest.fixture(params=["isal", "zlib"])
def inflater(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "zlib":
        monkeypatch.setattr(inflate, "zlib", zlib)
        monkeypatch.setattr(inflate, "_InflateError", zlib.error)


def assert_refused(
    tmp_path: Path, *layers: Layer, match: str | None = None, limits: Limits | None = None
) -> None:
    parent = tmp_path / "parent"
    with pytest.raises(IntegrityError, match=match):
        unpack(layers, parent / "cache", **({"limits": limits} if limits else {}))
    assert list(parent.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["parent"]


def test_the_table_refuses_for_the_entry_alone(tmp_path: Path) -> None:
    unpack([layer(GOOD)], tmp_path / "cache")
    assert (tmp_path / "cache/record.json").read_bytes() == b"content"


@pytest.mark.parametrize(("items", "match"), cases(ENTRIES))
def test_entry(tmp_path: Path, items: list[Item | bytes], match: str) -> None:
    assert_refused(tmp_path, layer(tar(*items)), match=match)


@pytest.mark.parametrize(("archive", "match"), cases(ARCHIVES))
def test_archive(tmp_path: Path, archive: bytes, match: str) -> None:
    assert_refused(tmp_path, layer(archive), match=match)


@pytest.mark.parametrize("archive", LIMITED.values(), ids=LIMITED)
def test_limit(tmp_path: Path, archive: bytes) -> None:
    unpack([layer(archive)], tmp_path / "fits")
    shutil.rmtree(tmp_path / "fits")
    assert_refused(tmp_path, layer(archive), limits=TINY)


def test_a_bomb_is_refused_by_the_real_limits(tmp_path: Path) -> None:
    assert_refused(tmp_path, layer(tar(file("glowplug/x", bytes(20_000_000)))), match="times its size")


def test_a_large_file_of_paths_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match="file of paths"):
        unpack(
            [layer(tar(file("glowplug/x", bytes(101))))],
            tmp_path / "cache",
            relocation=lambda _path: lambda content: content,
            limits=TINY,
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "second",
    [file("glowplug/x"), folder("glowplug/x"), link("glowplug/x", "y")],
    ids=["file", "folder", "link"],
)
def test_a_path_in_two_layers(tmp_path: Path, second: Item) -> None:
    assert_refused(tmp_path, layer(tar(file("glowplug/x"))), layer(tar(file("glowplug/y"), second)))


@pytest.mark.parametrize(
    ("blob", "match"),
    [
        (PACKED[:-1], "gzip"),
        (PACKED[:40], "gzip"),
        (PACKED[:-8] + b"\0" * 8, "gzip"),
        (PACKED + b"trailing garbage", "gzip"),
        (PACKED + bytes(100), "gzip"),
        (PACKED + gzip.compress(b"x", mtime=0), "goes on"),
        (GOOD, "gzip"),
        (zlib.compress(GOOD), "gzip"),
        (b"", "gzip"),
    ],
)
@pytest.mark.usefixtures("inflater")
def test_compression(tmp_path: Path, blob: bytes, match: str) -> None:
    assert_refused(tmp_path, layer(GOOD, blob=blob), match=match)


def test_another_digest_is_noticed_before_anything_is_parsed(tmp_path: Path) -> None:
    bad = gzip.compress(tar(file("/etc/x")))
    lie = layer(GOOD).descriptor._replace(digest="sha256:" + "0" * 64, size_bytes=len(bad))
    assert_refused(tmp_path, Layer(lie, arriving(in_chunks(bad), lie)), match="holds other bytes")


@pytest.mark.parametrize(("difference", "complaint"), [(-1, "is longer than"), (1, "ended after")])
def test_another_size(tmp_path: Path, difference: int, complaint: str) -> None:
    good = layer(GOOD).descriptor
    lie = good._replace(size_bytes=good.size_bytes + difference)
    content = arriving(in_chunks(gzip.compress(GOOD, mtime=0)), lie)
    assert_refused(tmp_path, Layer(lie, content), match=complaint)


def test_another_archive_than_annotated(tmp_path: Path) -> None:
    assert_refused(tmp_path, layer(GOOD, diff_id="sha256:" + "0" * 64), match=digest_of(GOOD))


def test_another_archive_than_the_config_says(tmp_path: Path) -> None:
    assert_refused(tmp_path, layer(GOOD)._replace(diff_id="sha256:" + "0" * 64), match=digest_of(GOOD))


def test_another_media_type(tmp_path: Path) -> None:
    good = layer(GOOD)
    other = good.descriptor._replace(media_type="application/vnd.oci.image.layer.v1.tar+zstd")
    assert_refused(tmp_path, good._replace(descriptor=other), match="tar.zstd")


def test_a_damaged_file_of_a_store(tmp_path: Path) -> None:
    blob = gzip.compress(GOOD)
    stored = tmp_path.with_name("stored")
    stored.write_bytes(blob[:-1] + b"\xff")
    descriptor = Descriptor(layer(GOOD).descriptor.media_type, digest_of(blob), len(blob))
    assert_refused(tmp_path, Layer(descriptor, stored), match="holds other bytes")


def test_no_layers(tmp_path: Path) -> None:
    assert_refused(tmp_path, match="nothing")


def test_one_bad_layer_ends_the_others_downloads(tmp_path: Path) -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield bytes(1000)

    slow = layer(GOOD).descriptor._replace(size_bytes=10**15)
    good = layer(GOOD).descriptor
    bad = Layer(good, arriving(in_chunks(b"other bytes"), good))
    assert_refused(
        tmp_path, Layer(slow, arriving(endless(), slow)), bad, Layer(slow, arriving(endless(), slow))
    )
