"""Tar streams that no container engine should send, and the round trip of those that it does."""

import io
import os
import tarfile
from pathlib import PurePosixPath

import pytest

from glowplug.engine.docker.archives import Access, Limits, pack_folder, read_file, unpack_folder
from glowplug.errors import EngineError, ModelRunError

FOLDER = "out"


def stream(*entries):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in ((FOLDER, None), *entries):
            entry = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            if content is None and not isinstance(name, tarfile.TarInfo):
                entry.type = tarfile.DIRTYPE
            entry.mode = 0o7777
            entry.size = len(content or b"")
            archive.addfile(entry, io.BytesIO(content or b""))
    return packed.getvalue()


def link(name, target, kind=tarfile.SYMTYPE):
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry, None


def unpacked(data, tmp_path, **limits):
    folder = tmp_path / "target" / "here"
    folder.parent.mkdir()
    unpack_folder(iter([data[at : at + 700] for at in range(0, len(data), 700)]), folder, Limits(**limits))
    return folder


@pytest.mark.parametrize(
    "entries",
    [
        [("../evil", b"x")],
        [("/evil", b"x")],
        [(f"{FOLDER}/../../evil", b"x")],
        [(f"{FOLDER}/no-folder/evil", b"x")],
        [(f"{FOLDER}/link/evil", b"x"), link(f"{FOLDER}/link", "/")],
        [link(f"{FOLDER}/link", "/"), (f"{FOLDER}/link/evil", b"x")],
        [(f"{FOLDER}/twice", b"x"), (f"{FOLDER}/twice", b"y")],
        [(f"{FOLDER}/twice", None), (f"{FOLDER}/twice", b"y")],
        [(FOLDER, b"x")],
        [("other/evil", b"x")],
        [("/".join([FOLDER] * 70), b"x")],
    ],
)
def test_paths_that_no_engine_sends_are_refused(tmp_path, entries):
    with pytest.raises(ModelRunError):
        unpacked(stream(*entries), tmp_path)
    assert {path.name for path in tmp_path.rglob("evil")} == set()


def test_what_is_no_folder_is_refused(tmp_path):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(link(FOLDER, "/etc")[0])
    with pytest.raises(ModelRunError, match="something else than a folder"):
        unpacked(packed.getvalue(), tmp_path)


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "..", "../x", "a/../../..", "./../..", "", "a/..", "down/../../../x"]
)
def test_links_that_may_lead_outside_are_left_out(tmp_path, target):
    assert list(unpacked(stream(link(f"{FOLDER}/link", target)), tmp_path).iterdir()) == []


@pytest.mark.parametrize("target", ["../file", "../../out-not-really", "..", "../sub/file", "file"])
def test_links_below_are_judged_by_their_own_folder(tmp_path, target):
    folder = unpacked(stream((f"{FOLDER}/sub", None), link(f"{FOLDER}/sub/link", target)), tmp_path)
    kept = target.count("..") <= 1
    assert (folder / "sub" / "link").is_symlink() is kept


@pytest.mark.parametrize("kind", [tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE])
def test_what_is_no_content_is_left_out(tmp_path, kind):
    assert list(unpacked(stream(link(f"{FOLDER}/odd", "", kind)), tmp_path).iterdir()) == []


def test_a_hard_link_to_something_else_is_left_out(tmp_path):
    data = stream((f"{FOLDER}/file", b"x"), link(f"{FOLDER}/odd", "other/file", tarfile.LNKTYPE))
    assert [path.name for path in unpacked(data, tmp_path).iterdir()] == ["file"]


def test_too_many_files_are_refused(tmp_path):
    data = stream(*((f"{FOLDER}/{number}", b"") for number in range(4)))
    with pytest.raises(ModelRunError, match="more than 3 files"):
        unpacked(data, tmp_path, entries=3)


def test_too_many_bytes_are_refused_before_they_are_written(tmp_path):
    with pytest.raises(ModelRunError, match="more than 10 bytes"):
        unpacked(stream((f"{FOLDER}/a", b"12345"), (f"{FOLDER}/b", b"123456")), tmp_path, total_bytes=10)
    assert [path.name for path in (tmp_path / "target" / "here").iterdir()] == ["a"]


def test_a_stream_that_breaks_off_is_the_engines_failure(tmp_path):
    data = stream((f"{FOLDER}/a", b"x" * 5000))
    with pytest.raises(EngineError, match="broke off"):
        unpacked(data[:3000], tmp_path)


def test_what_goes_in_comes_out(tmp_path):
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "file").write_bytes(os.urandom(70_000))
    (folder / "sub" / "tool").write_bytes(b"x")
    (folder / "sub" / "tool").chmod(0o755)
    (folder / ("long" * 60)).write_text("x")
    (folder / "link").symlink_to("sub/file")
    os.mkfifo(folder / "pipe")
    packed = b"".join(
        pack_folder(folder, PurePosixPath(FOLDER), lambda p: Access(1, 2, p.lstat().st_mode & 0o777))
    )
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert {(entry.uid, entry.gid) for entry in archive} == {(1, 2)}
    copy = unpacked(packed, tmp_path)
    assert {path.name for path in copy.rglob("*")} == {"sub", "file", "tool", "long" * 60, "link"}
    assert (copy / "sub" / "file").read_bytes() == (folder / "sub" / "file").read_bytes()
    assert (copy / "sub" / "tool").stat().st_mode & 0o111
    assert (copy / "link").readlink().as_posix() == "sub/file"


def test_a_file_that_shrinks_meanwhile_keeps_its_promised_size(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_bytes(b"x" * 5000)
    chunks = pack_folder(folder, PurePosixPath(FOLDER), lambda _path: Access(0, 0, 0o644))
    packed = next(chunks)
    header = next(chunks)
    os.truncate(folder / "file", 10)
    copy = unpacked(packed + header + b"".join(chunks), tmp_path)
    assert (copy / "file").read_bytes() == b"x" * 10 + bytes(4990)


def test_a_small_file_is_read_and_nothing_else():
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo("passwd")
        entry.size = 5
        archive.addfile(entry, io.BytesIO(b"root:"))
    assert read_file(iter([packed.getvalue()])) == "root:"
    assert read_file(iter([packed.getvalue()]), limit_bytes=4) == ""
    assert read_file(iter([stream()])) == ""
