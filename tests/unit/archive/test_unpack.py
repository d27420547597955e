from __future__ import annotations

import errno
import gzip
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from glowplug.archive import tree
from glowplug.archive.layer_writer import PackedLayer
from glowplug.archive.pack import pack, pack_files
from glowplug.archive.unpack import Layer, UnpackSummary, unpack
from glowplug.errors import GlowplugError, UsageError
from unit.archive.caches import FILES, contents, fill, to_unpack
from unit.archive.tars import arriving, file, folder, in_chunks, layer, link, tar


@pytest.fixture
def packed(tmp_path_factory: pytest.TempPathFactory) -> tuple[PackedLayer, ...]:
    folder = tmp_path_factory.mktemp("packed")
    record = pack_files({"record.json": b"{}"}, folder / "out")
    return (record, *pack(folder / "root", fill(folder / "root", FILES), folder / "out"))


def test_round_trip(tmp_path: Path, packed: tuple[PackedLayer, ...]) -> None:
    summary = unpack(to_unpack(packed), tmp_path / "parent/cache")
    assert contents(tmp_path / "parent/cache") == FILES | {"record.json": b"{}"}
    assert summary == UnpackSummary(
        len(FILES) + 1,
        sum(layer.uncompressed_size_bytes for layer in packed),
        sum(layer.descriptor.size_bytes for layer in packed),
    )
    assert [path.name for path in (tmp_path / "parent").iterdir()] == ["cache"]


def test_layers_may_come_as_streams_and_in_any_order(tmp_path: Path, packed: tuple[PackedLayer, ...]) -> None:
    streams = (
        Layer(p.descriptor, arriving(in_chunks(p.path.read_bytes()), p.descriptor)) for p in reversed(packed)
    )
    unpack(streams, tmp_path / "cache")
    assert contents(tmp_path / "cache") == FILES | {"record.json": b"{}"}


def test_modes_do_not_depend_on_the_umask(tmp_path: Path, packed: tuple[PackedLayer, ...]) -> None:
    mask = os.umask(0o077)
    try:
        unpack(to_unpack(packed), tmp_path / "cache")
    finally:
        os.umask(mask)
    paths = [tmp_path / "cache", *(p for p in (tmp_path / "cache").rglob("*") if not p.is_symlink())]
    for path in paths:
        expected = 0o755 if path.is_dir() or path.suffix == ".so" else 0o644
        assert stat.S_IMODE(path.stat().st_mode) == expected, path


def test_other_modes_are_reduced_to_two(tmp_path: Path) -> None:
    items = [file("glowplug/a", mode=0o777), file("glowplug/b", mode=0o466), folder("glowplug/c")]
    unpack([layer(tar(*items))], tmp_path / "cache")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "cache").iterdir()}
    assert modes == {"a": 0o755, "b": 0o644, "c": 0o755}


def test_a_link_may_lead_to_another_layer(tmp_path: Path) -> None:
    first = layer(tar(folder("glowplug/d"), link("glowplug/d/x", "../x")))
    unpack([first, layer(tar(file("glowplug/x", b"1")))], tmp_path / "cache")
    assert (tmp_path / "cache/d/x").readlink() == Path("../x")
    assert (tmp_path / "cache/d/x").read_bytes() == b"1"


def test_several_gzip_members_are_one_archive(tmp_path: Path) -> None:
    archive = tar(file("glowplug/x", os.urandom(3000)))
    blob = b"".join(gzip.compress(archive[at : at + 700]) for at in range(0, len(archive), 700))
    unpack([layer(archive, blob=blob)], tmp_path / "cache")
    assert (tmp_path / "cache/x").read_bytes() == archive[1024:4024]


def test_a_large_file_arrives_whole(tmp_path: Path) -> None:
    content = b"".join(b"%d," % number for number in range(700_000)) + os.urandom(300_000)
    unpack([layer(tar(file("glowplug/x", content)))], tmp_path / "cache")
    assert (tmp_path / "cache/x").read_bytes() == content


def test_files_of_paths_are_rewritten_by_their_path_in_the_cache_root(tmp_path: Path) -> None:
    archive = tar(folder("glowplug/triton"), file("glowplug/triton/a"), file("glowplug/triton/b"))
    unpack(
        [layer(archive)],
        tmp_path / "cache",
        relocation=lambda path: bytes.upper if path == "triton/a" else None,
    )
    assert contents(tmp_path / "cache") == {"triton/a": b"CONTENT", "triton/b": b"content"}


def test_an_empty_folder_is_replaced(tmp_path: Path, packed: tuple[PackedLayer, ...]) -> None:
    (tmp_path / "cache").mkdir()
    unpack(to_unpack(packed), tmp_path / "cache")
    assert contents(tmp_path / "cache")["record.json"] == b"{}"


def test_a_folder_in_use_is_left_alone(tmp_path: Path, packed: tuple[PackedLayer, ...]) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/mine").write_bytes(b"1")
    with pytest.raises(UsageError, match="is not empty") as caught:
        unpack(to_unpack(packed), tmp_path / "cache")
    assert caught.value.hint
    assert contents(tmp_path) == {"cache/mine": b"1"}


def test_a_folder_filled_meanwhile_is_left_alone(tmp_path: Path) -> None:
    def relocation(_path: str) -> None:
        (tmp_path / "cache").mkdir()
        (tmp_path / "cache/theirs").write_bytes(b"1")

    with pytest.raises(UsageError, match="meanwhile"):
        unpack([layer(tar(file("glowplug/x")))], tmp_path / "cache", relocation=relocation)
    assert contents(tmp_path) == {"cache/theirs": b"1"}


@pytest.mark.parametrize("place", ["file", "file/cache", "file/deeper/cache", "n" * 300])
def test_a_place_that_cannot_hold_a_folder(
    tmp_path: Path, packed: tuple[PackedLayer, ...], place: str
) -> None:
    (tmp_path / "file").write_bytes(b"1")
    with pytest.raises(UsageError) as caught:
        unpack(to_unpack(packed), tmp_path / place)
    assert caught.value.hint
    assert contents(tmp_path) == {"file": b"1"}


@pytest.mark.parametrize(
    ("code", "kind", "sentence"),
    [
        (errno.ENOSPC, GlowplugError, "is full"),
        (errno.EDQUOT, GlowplugError, "is full"),
        (errno.EROFS, UsageError, "Read-only file system"),
        (errno.EIO, GlowplugError, "Input/output error"),
    ],
)
def test_a_failing_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[GlowplugError], sentence: str
) -> None:
    def fail(_descriptor: int, _data: bytes) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(tree.os, "write", fail)
    with pytest.raises(GlowplugError, match=sentence) as caught:
        unpack([layer(tar(file("glowplug/x")))], tmp_path / "cache")
    assert type(caught.value) is kind
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_lost_a_layer(tmp_path: Path) -> None:
    with pytest.raises(GlowplugError, match=r"cannot read layer sha256:.*No such file"):
        unpack([Layer(layer(b"").descriptor, tmp_path / "missing")], tmp_path / "cache")
    assert list(tmp_path.iterdir()) == []


def test_a_broken_download_passes_through(tmp_path: Path) -> None:
    def chunks() -> object:
        yield b"x"
        raise ConnectionResetError

    descriptor = layer(tar()).descriptor
    with pytest.raises(ConnectionResetError):
        unpack([Layer(descriptor, arriving(chunks(), descriptor))], tmp_path / "cache")
    assert list(tmp_path.iterdir()) == []


def test_a_start_imports_neither_the_build_side_nor_the_network() -> None:
    program = (
        "import sys, glowplug.archive.unpack, glowplug.caches.table, glowplug.caches.walk;"
        "print(*sorted({'deflate', 'oras', 'urllib3', 'ssl', 'torch', 'triton', 'tarfile', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
