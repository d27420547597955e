"""Archives made by other means than ours: the standard library's tarfile, and bytes."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass

from glowplug.archive.format import CONTENT_DIGEST
from glowplug.archive.unpack import Layer
from glowplug.core.integrity import CopyBlob, fill
from glowplug.core.oci import LAYER_TYPE, Descriptor, digest_of


@dataclass(frozen=True)
class Item:
    """A member as tarfile shall write it."""

    name: str
    type: bytes = tarfile.REGTYPE
    content: bytes = b""
    target: str = ""
    mode: int = 0o644

    def encode(self, format_: int = tarfile.USTAR_FORMAT) -> bytes:
        info = tarfile.TarInfo(self.name)
        info.type, info.linkname, info.mode, info.size = self.type, self.target, self.mode, len(self.content)
        return info.tobuf(format_) + self.content + bytes(-len(self.content) % 512)


def folder(name: str) -> Item:
    return Item(name, tarfile.DIRTYPE, mode=0o755)


def file(name: str, content: bytes = b"content", mode: int = 0o644) -> Item:
    return Item(name, content=content, mode=mode)


def link(name: str, target: str) -> Item:
    return Item(name, tarfile.SYMTYPE, target=target, mode=0o777)


def tar(*items: Item | bytes, end: bytes = bytes(1024)) -> bytes:
    """Return an archive: the artifact's folder, then the items as they are."""
    return b"".join(i if isinstance(i, bytes) else i.encode() for i in (folder("glowplug"), *items)) + end


def pax(records: dict[str, str], item: Item) -> bytes:
    """Return an item behind a pax header that says whatever the test wants."""
    info = tarfile.TarInfo()
    return info._create_pax_generic_header(records, tarfile.XHDTYPE, "utf-8") + item.encode()


def patched(item: Item, at: int, value: bytes, *, mend_checksum: bool = True) -> bytes:
    """Return an item with some bytes of its header replaced."""
    block = bytearray(item.encode())
    block[at : at + len(value)] = value
    if mend_checksum:
        block[148:156] = b" " * 8
        block[148:156] = b"%06o\0 " % sum(block[:512])
    return bytes(block)


def layer(archive: bytes, *, blob: bytes | None = None, diff_id: str | None = None) -> Layer:
    """Return a layer whose digests are right, unless told otherwise."""
    compressed = gzip.compress(archive, mtime=0) if blob is None else blob
    diff_id = digest_of(archive) if diff_id is None else diff_id
    annotations = {CONTENT_DIGEST: diff_id}
    descriptor = Descriptor(LAYER_TYPE, digest_of(compressed), len(compressed), annotations)
    return Layer(descriptor, arriving(in_chunks(compressed), descriptor), diff_id)


def arriving(chunks: Iterable[bytes], descriptor: Descriptor) -> CopyBlob:
    """Return what copies these bytes as a repository does: it checks them."""
    return lambda file, on_bytes: fill(file, chunks, descriptor, on_bytes)


def in_chunks(data: bytes) -> Iterable[bytes]:
    stream = io.BytesIO(data)
    return iter(lambda: stream.read(1000), b"")
