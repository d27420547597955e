"""The tar subset of an artifact: files, folders and symbolic links with ustar headers (IEEE 1003.1, pax).

Written here rather than by ``tarfile``, because equal content must give equal bytes under every Python; read
here, because a start that reads thousands of members cannot afford ``tarfile``, which takes twice the time.
A name too long for ustar is carried by a pax header, and only such a name.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from glowplug.errors import IntegrityError

BLOCK_BYTES = 512
END = bytes(2 * BLOCK_BYTES)
# What eleven octal digits hold.
MAX_FILE_BYTES = 8 * 1024**3 - 1

_NAME_BYTES = 100
_PREFIX_BYTES = 155
_MAX_PAX_BYTES = 16 * 1024
_MAGIC = b"ustar\x0000"
_PAX = b"x"
_SET_ID_BITS = 0o7000


class MemberType(Enum):
    """What an archive may hold, with ustar's type flag."""

    FILE = b"0"
    LINK = b"2"
    FOLDER = b"5"


_TYPES = {type_.value: type_ for type_ in MemberType}


class Member(NamedTuple):
    """One entry; ``target`` is a link's, and a folder's path has no trailing slash."""

    path: str
    type: MemberType
    size_bytes: int = 0
    executable: bool = False
    target: str = ""


def padding(size_bytes: int) -> int:
    """Return how many zero bytes follow a content of this size."""
    return -size_bytes % BLOCK_BYTES


def encode_member(member: Member) -> bytes:
    """Return the header blocks that precede a member's content; owner 0:0 without a name, mtime 0."""
    path = member.path.encode() + (b"/" if member.type is MemberType.FOLDER else b"")
    target = member.target.encode()
    prefix, name = _split(path)
    long_names = {b"path": path} if prefix is None else {}
    if len(target) > _NAME_BYTES:
        long_names[b"linkpath"] = target
    mode = 0o755 if member.executable or member.type is not MemberType.FILE else 0o644
    names = (name, prefix or b"", target[:_NAME_BYTES])
    header = _header(member.type.value, names, mode, member.size_bytes)
    return _pax(long_names) + header if long_names else header


def read_member(read: Callable[[int], bytes]) -> Member | None:
    """Read the header at the stream's position; ``None`` at the end-of-archive blocks.

    Args:
        read: returns exactly so many bytes of the stream, or raises.

    Raises:
        IntegrityError: it is no header, or one of something that an artifact may not hold.
    """
    block = read(BLOCK_BYTES)
    if not any(block):
        if any(read(BLOCK_BYTES)):
            raise IntegrityError("an archive goes on after its end mark")
        return None
    long_names: dict[bytes, bytes] = {}
    if _checked(block)[156:157] == _PAX:
        size_bytes = _octal(block[124:136])
        if size_bytes > _MAX_PAX_BYTES:
            raise IntegrityError("an archive holds a pax header that is larger than any name")
        long_names = _pax_records(read(size_bytes))
        read(padding(size_bytes))
        block = _checked(read(BLOCK_BYTES))
    return _member(block, long_names)


def _member(block: bytes, long_names: dict[bytes, bytes]) -> Member:
    prefix, name = _text(block[345:500]), _text(block[:100])
    path = _long(b"path", prefix + b"/" + name if prefix else name, long_names)
    target = _long(b"linkpath", _text(block[157:257]), long_names)
    type_ = _TYPES.get(block[156:157])
    if type_ is None:
        raise _refused(path, "as something other than a file, a folder or a symbolic link")
    mode, size_bytes = _octal(block[100:108]), _octal(block[124:136])
    if mode & _SET_ID_BITS:
        raise _refused(path, "with a set-id or sticky bit")
    if (size_bytes and type_ is not MemberType.FILE) or (bool(target) != (type_ is MemberType.LINK)):
        raise _refused(path, "with a content or a target that its type cannot have")
    if type_ is MemberType.FOLDER:
        path = path.removesuffix(b"/")
    executable = type_ is MemberType.FILE and bool(mode & 0o100)
    try:
        return Member(path.decode(), type_, size_bytes, executable, target.decode())
    except UnicodeDecodeError:
        raise _refused(path, "with a name that is not UTF-8") from None


def _refused(path: bytes, why: str) -> IntegrityError:
    return IntegrityError(f"an archive holds {path.decode(errors='replace')[:200]!a} {why}")


def _split(path: bytes) -> tuple[bytes | None, bytes]:
    """Return ustar's prefix and name; the prefix is ``None`` when the path fits no header."""
    if len(path) <= _NAME_BYTES:
        return b"", path
    at = path.find(b"/", max(len(path) - _NAME_BYTES - 1, 0))
    if 0 < at <= _PREFIX_BYTES and at + 1 < len(path):
        return path[:at], path[at + 1 :]
    return None, path[:_NAME_BYTES]


def _header(flag: bytes, names: tuple[bytes, bytes, bytes], mode: int, size_bytes: int) -> bytes:
    name, prefix, target = names
    block = bytearray(BLOCK_BYTES)
    block[0 : len(name)] = name
    block[100:108] = b"%07o\0" % mode
    block[108:124] = b"0000000\0" * 2
    block[124:136] = b"%011o\0" % size_bytes
    block[136:148] = b"%011o\0" % 0
    block[148:156] = b" " * 8
    block[156:157] = flag
    block[157 : 157 + len(target)] = target
    block[257:265] = _MAGIC
    block[329:345] = b"0000000\0" * 2
    block[345 : 345 + len(prefix)] = prefix
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def _pax(long_names: dict[bytes, bytes]) -> bytes:
    records = b"".join(_pax_record(key, value) for key, value in long_names.items())
    header = _header(_PAX, (b"././@PaxHeader", b"", b""), 0o644, len(records))
    return header + records + bytes(padding(len(records)))


def _pax_record(key: bytes, value: bytes) -> bytes:
    """Return a record: its length, counting those digits too, then key and value."""
    rest = b" " + key + b"=" + value + b"\n"
    length = len(rest) + len(str(len(rest)))
    length = len(rest) + len(str(length))
    return b"%d" % length + rest


def _pax_records(data: bytes) -> dict[bytes, bytes]:
    records: dict[bytes, bytes] = {}
    while data:
        digits, space, _ = data[:8].partition(b" ")
        length = int(digits) if space and digits.isdigit() else 0
        key, equals, value = data[len(digits) + 1 : length].partition(b"=")
        if not equals or value[-1:] != b"\n" or length > len(data) or key in records:
            raise IntegrityError("an archive holds a pax header that cannot be read")
        if key not in (b"path", b"linkpath"):
            shown = key[:40].decode(errors="replace")
            raise IntegrityError(f"an archive holds the pax header {shown!a}, which artifacts do not use")
        records[key] = value[:-1]
        data = data[length:]
    return records


def _long(key: bytes, short: bytes, long_names: dict[bytes, bytes]) -> bytes:
    """Return a name, from the pax header where there is one.

    A pax name may only continue the one that its header had to cut, so that no reader, whether it knows pax
    or not, is shown another file.
    """
    name = long_names.get(key)
    if name is None:
        return short
    if len(name) <= _NAME_BYTES or name[:_NAME_BYTES] != short or b"\0" in name:
        before, after = short.decode(errors="replace"), name[:200].decode(errors="replace")
        raise IntegrityError(f"an archive renames {before!a} to {after!a}")
    return name


def _checked(block: bytes) -> bytes:
    if block[257:265] != _MAGIC:
        raise IntegrityError("an archive holds a header that is not POSIX ustar")
    if _octal(block[148:156]) != _byte_sum(block) - sum(block[148:156]) + 8 * ord(" "):
        raise IntegrityError("an archive holds a header with a wrong checksum")
    return block


def _byte_sum(block: bytes) -> int:
    """Add up the bytes of a header in a quarter of sum()'s time: of 256 bytes, adler32's lower half is 1 + their sum."""
    half = BLOCK_BYTES // 2
    return (zlib.adler32(block[:half]) & 0xFFFF) + (zlib.adler32(block[half:]) & 0xFFFF) - 2


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _octal(field: bytes) -> int:
    digits = field.strip(b" \0")
    if digits.translate(None, b"01234567"):
        raise IntegrityError("an archive holds a header with a number that is not octal")
    return int(digits or b"0", 8)
