from __future__ import annotations

import os
import sys
import tarfile
from pathlib import Path

import pytest

from glowplug.archive import layer_writer
from glowplug.archive import pack as packing
from glowplug.archive.format import CONTENT_DIGEST, MAX_LAYERS, TITLE, UNPACK
from glowplug.archive.layer_writer import PackedLayer, isal_gzip
from glowplug.archive.pack import pack, pack_files
from glowplug.archive.unpack import unpack
from glowplug.core.inventory import Rewrite
from glowplug.core.oci import LAYER_TYPE, digest_of
from glowplug.errors import GlowplugError, IntegrityError, ToolMissingError
from unit.archive.caches import FILES, LONG_NAME, contents, fill, inventory, to_unpack


def members(path: Path) -> list[tarfile.TarInfo]:
    with tarfile.open(path) as archive:
        return archive.getmembers()


def test_a_layer_says_what_it_is(tmp_path: Path) -> None:
    layers = pack(tmp_path / "root", fill(tmp_path / "root", FILES), tmp_path / "out")
    for layer in layers:
        blob = layer.path.read_bytes()
        assert layer.path.name == f"{digest_of(blob).removeprefix('sha256:')}.tar.gz"
        assert (layer.descriptor.media_type, layer.descriptor.digest) == (LAYER_TYPE, digest_of(blob))
        assert layer.descriptor.size_bytes == len(blob)
        assert layer.descriptor.annotations[CONTENT_DIGEST] == layer.diff_id
        assert layer.descriptor.annotations[UNPACK] == "true"
    titles = [layer.descriptor.annotations[TITLE] for layer in layers]
    assert titles == ["glowplug/", "glowplug//"]
    assert sorted(tmp_path.joinpath("out").iterdir()) == sorted(layer.path for layer in layers)


def test_the_record_has_the_first_title(tmp_path: Path) -> None:
    layer = pack_files({"record.json": b"{}", "inventory.json": b"[]"}, tmp_path)
    assert layer.descriptor.annotations[TITLE] == "glowplug"
    assert [m.name for m in members(layer.path)] == [
        "glowplug",
        "glowplug/inventory.json",
        "glowplug/record.json",
    ]


def test_the_bytes_of_the_format_change_only_on_purpose(tmp_path: Path) -> None:
    layers = pack(tmp_path / "root", fill(tmp_path / "root", FILES), tmp_path / "out")
    assert [layer.diff_id for layer in layers] == [
        "sha256:374142b0204fcdbf50ff997b27a326f674715d727b1ad73b77a4c6b0ebabc4bf",
        "sha256:064d558dc96c48a87ec08a17d597cd2725cbaee3fd3397bd5ec6cdc308379493",
    ]


def test_only_content_decides_about_digests(tmp_path: Path) -> None:
    first = pack(tmp_path / "a", fill(tmp_path / "a", FILES), tmp_path / "out-a")
    mask = os.umask(0o077)
    try:
        fill(tmp_path / "b", dict(reversed(FILES.items())))
        for number, path in enumerate(sorted(tmp_path.joinpath("b").rglob("*"))):
            os.utime(path, (number, number))
            if os.geteuid() == 0:
                os.chown(path, 1000 + number, 1000)
        second = pack(tmp_path / "b", inventory(FILES), tmp_path / "out-b")
    finally:
        os.umask(mask)
    assert [layer.descriptor for layer in first] == [layer.descriptor for layer in second]


def test_folders_precede_what_they_hold_and_owners_are_gone(tmp_path: Path) -> None:
    for layer in pack(tmp_path / "root", fill(tmp_path / "root", FILES), tmp_path / "out"):
        found = members(layer.path)
        seen: set[str] = set()
        for member in found:
            assert member.name == "glowplug" or str(Path(member.name).parent) in seen
            seen.add(member.name)
            assert (member.uid, member.gid, member.uname, member.gname, member.mtime) == (0, 0, "", "", 0)
            assert member.mode in (0o644, 0o755)
        files = [member.name for member in found if not member.isdir()]
        assert files == sorted(files)


def test_a_file_that_occurs_again_is_a_link(tmp_path: Path) -> None:
    twice = b"x" * 5000
    files = {
        "inductor/a/c.so": twice,
        "inductor/b/c.so": twice,
        "inductor/c/tiny": b"x",
        "inductor/d/tiny": b"x",
        "triton/A/add.llir": twice,
        "triton/A/deep/add.llir": twice,
        "triton/B/__grp__add.json": twice,
        "triton/C/__grp__add.json": twice,
        "triton/D/add.llir": twice + b"y",
    }

    def relocation(path: str) -> Rewrite | None:
        return (lambda content: content) if "__grp__" in path else None

    layers = pack(tmp_path / "root", fill(tmp_path / "root", files), tmp_path / "out", relocation)
    links = {m.name: m.linkname for layer in layers for m in members(layer.path) if m.issym()}
    assert links == {"glowplug/triton/A/deep/add.llir": "../add.llir"}


def test_files_are_packed_as_they_are_in_an_artifact(tmp_path: Path) -> None:
    fill(tmp_path / "root", {"triton/A/group": b"at /old"})
    wanted = inventory({"triton/A/group": b"at /new"})
    (layer,) = pack(
        tmp_path / "root", wanted, tmp_path / "out", lambda _: lambda c: c.replace(b"old", b"new")
    )
    with tarfile.open(layer.path) as archive:
        content = archive.extractfile("glowplug/triton/A/group")
        assert content is not None
        assert content.read() == b"at /new"


def test_many_files_are_split_evenly_by_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_LAYER_BYTES", 1000)
    files = {f"inductor/{n:03}": bytes([n]) * 100 for n in range(200)}
    files |= {f"triton/{n:03}/add.llir": bytes([n, 7]) * 3000 for n in range(50)}
    files |= {f"triton/{n:03}/add.llir": b"same" * 2000 for n in range(50, 60)}
    layers = pack(tmp_path / "root", fill(tmp_path / "root", files), tmp_path / "out")
    assert 10 < len(layers) <= MAX_LAYERS - 1
    names = [[m.name for m in members(layer.path) if not m.isdir()] for layer in layers]
    assert sorted(name for layer in names for name in layer) == sorted(f"glowplug/{path}" for path in files)
    assert all(len({name.split("/")[1] for name in layer}) == 1 for layer in names)
    triton = [
        layer.uncompressed_size_bytes
        for layer, held in zip(layers, names, strict=True)
        if "/triton/" in held[0]
    ]
    assert max(triton) < 2 * min(triton)
    for layer in layers:  # a link is where its file is
        held = {m.name: m for m in members(layer.path)}
        assert all(
            str(Path(m.name).parent.parent / m.linkname[3:]) in held for m in held.values() if m.issym()
        )


def test_a_large_file_is_compressed_in_bounded_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_writer, "_MEMBER_BYTES", 1000)
    content = os.urandom(10_000)
    (layer,) = pack(tmp_path / "root", fill(tmp_path / "root", {"triton/x": content}), tmp_path / "out")
    assert layer.path.read_bytes().count(b"\x1f\x8b\x08") >= 10
    with tarfile.open(layer.path) as archive:
        file = archive.extractfile("glowplug/triton/x")
        assert file is not None
        assert file.read() == content


@pytest.mark.parametrize("now", [b"12345", b"12", b"124"])
def test_a_file_that_changed_since_is_noticed(tmp_path: Path, now: bytes) -> None:
    fill(tmp_path / "root", {"triton/x": now})
    with pytest.raises(IntegrityError, match="changed while it was packed"):
        pack(tmp_path / "root", inventory({"triton/x": b"123"}), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_file_that_is_gone_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(GlowplugError, match=r"No such file.*triton/x"):
        pack(tmp_path / "root", inventory({"triton/x": b"123"}), tmp_path / "out")


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deflate", None)
    with pytest.raises(ToolMissingError) as caught:
        pack_files({"record.json": b"{}"}, tmp_path)
    assert "glowplug[build]" in caught.value.hint


@pytest.fixture(params=["isal", "zlib"])
def base_install(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a model's container has, with and without a wheel of isal for it."""
    monkeypatch.setitem(sys.modules, "deflate", None)
    if request.param == "zlib":
        monkeypatch.setitem(sys.modules, "isal", None)


@pytest.mark.usefixtures("base_install")
def test_the_base_install_packs_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_writer, "_MEMBER_BYTES", 10_000)
    wanted = fill(tmp_path / "root", FILES)

    def packed(out: str) -> list[PackedLayer]:
        record = pack_files({"record.json": b"{}"}, tmp_path / out, isal_gzip)
        return [record, *pack(tmp_path / "root", wanted, tmp_path / out, compress=isal_gzip)]

    layers = packed("out")
    for layer in layers:
        blob = layer.path.read_bytes()
        assert digest_of(blob) == layer.descriptor.digest
        assert blob[4:8] == bytes(4)  # no time (RFC 1952, MTIME)
    assert layers[1].path.read_bytes().count(b"\x1f\x8b\x08") > 1
    unpack(to_unpack(layers), tmp_path / "unpacked")
    assert contents(tmp_path / "unpacked") == FILES | {"record.json": b"{}"}
    monkeypatch.setattr("time.time", lambda: 1e9)
    assert [layer.descriptor for layer in packed("again")] == [layer.descriptor for layer in layers]


def test_the_content_decides_about_diff_ids_whatever_compresses(tmp_path: Path) -> None:
    wanted = fill(tmp_path / "root", FILES)
    small = pack(tmp_path / "root", wanted, tmp_path / "small")
    quick = pack(tmp_path / "root", wanted, tmp_path / "quick", compress=isal_gzip)
    assert [layer.diff_id for layer in small] == [layer.diff_id for layer in quick]


def test_nothing_gives_no_layer(tmp_path: Path) -> None:
    assert pack(tmp_path, inventory({}), tmp_path / "out") == ()


def test_long_names_survive(tmp_path: Path) -> None:
    (layer,) = pack(tmp_path / "r", fill(tmp_path / "r", {f"triton/A/{LONG_NAME}": b"1"}), tmp_path / "out")
    assert members(layer.path)[-1].name == f"glowplug/triton/A/{LONG_NAME}"
