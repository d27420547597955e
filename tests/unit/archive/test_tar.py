from __future__ import annotations

import io
import tarfile

import pytest

from glowplug.archive.tar import END, Member, MemberType, encode_member, padding, read_member

MEMBERS = [
    Member("glowplug", MemberType.FOLDER),
    Member("glowplug/x", MemberType.FILE, 5),
    Member("glowplug/x.so", MemberType.FILE, 0, executable=True),
    Member("glowplug/link", MemberType.LINK, target="x"),
    Member("glowplug/é", MemberType.FILE, 512),
    *(Member("glowplug/" + "n" * length, MemberType.FILE, 1) for length in (90, 91, 92, 150, 255, 900)),
    *(Member("glowplug/" + "n" * length, MemberType.FOLDER) for length in (89, 90, 91, 92, 150)),
    *(Member("glowplug/" + "d" * length + "/" + "n" * 99, MemberType.FILE) for length in (145, 146, 147)),
    *(
        Member(f"glowplug/link{length}", MemberType.LINK, target="t" * length)
        for length in (99, 100, 101, 300)
    ),
    Member("glowplug/" + "p" * 150, MemberType.LINK, target="../" + "t" * 150),
    Member("glowplug/" + "é" * 80, MemberType.FILE, 3),
]


@pytest.mark.parametrize("member", MEMBERS, ids=range(len(MEMBERS)))
def test_what_is_written_is_read_alike(member: Member) -> None:
    stream = io.BytesIO(encode_member(member) + END)
    assert read_member(stream.read) == member
    assert read_member(stream.read) is None
    assert stream.read() == b""


@pytest.mark.parametrize("member", MEMBERS, ids=range(len(MEMBERS)))
def test_tarfile_reads_what_is_written(member: Member) -> None:
    content = bytes(member.size_bytes + padding(member.size_bytes))
    with tarfile.open(fileobj=io.BytesIO(encode_member(member) + content + END)) as archive:
        (info,) = archive.getmembers()
    assert (info.name, info.size, info.linkname) == (member.path, member.size_bytes, member.target)
    assert (info.isdir(), info.issym()) == (member.type is MemberType.FOLDER, member.type is MemberType.LINK)
    assert info.mode == (0o644 if member.type is MemberType.FILE and not member.executable else 0o755)
    assert (info.uid, info.gid, info.uname, info.gname, info.mtime) == (0, 0, "", "", 0)


@pytest.mark.parametrize("member", [m for m in MEMBERS if len(encode_member(m)) == 512], ids=str)
def test_a_header_is_the_one_of_tarfile(member: Member) -> None:
    info = tarfile.TarInfo(member.path)
    info.type, info.size, info.linkname = member.type.value, member.size_bytes, member.target
    info.mode = 0o644 if member.type is MemberType.FILE and not member.executable else 0o755
    ours, theirs = encode_member(member), info.tobuf(tarfile.USTAR_FORMAT)
    # Versions of Python fill the checksum and the device numbers of a file without device differently.
    assert ours[:148] + ours[156:329] + ours[345:] == theirs[:148] + theirs[156:329] + theirs[345:]


def test_only_long_names_need_pax() -> None:
    short = Member("glowplug/" + "d" * 145 + "/" + "n" * 99, MemberType.FILE)
    long = Member("glowplug/" + "n" * 101, MemberType.FILE)
    assert len(encode_member(short)) == 512
    assert len(encode_member(long)) == 3 * 512
