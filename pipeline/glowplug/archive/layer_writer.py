"""One layer on its way to disk: tar bytes in, a digest-named gzip file and its descriptor out."""

from __future__ import annotations

import gzip
import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from glowplug.archive import tar
from glowplug.archive.format import CONTENT_DIGEST, FOLDER, TITLE, UNPACK, link_target, title
from glowplug.archive.tar import Member, MemberType
from glowplug.core.oci import LAYER_TYPE, Descriptor
from glowplug.errors import GlowplugError, IntegrityError, ToolMissingError

# A gzip file may have several members (RFC 1952, 2.2). Closing one every so often bounds memory whatever a
# layer holds, and costs 0.04 % of size.
_MEMBER_BYTES = 16 * 1024 * 1024
# Smaller than zlib's 9, in less time than zlib's 6.
_LIBDEFLATE_LEVEL = 6
# Of 0 to 3: a sixth larger than that, in a fifth of the time.
_ISAL_LEVEL = 2

Compress = Callable[[bytes], bytes]
"""Turns bytes into one gzip member that holds no time and no name: the same bytes always give the same."""


@dataclass(frozen=True)
class PackedLayer:
    """A layer on disk.

    Attributes:
        path: the gzip file, named by its digest.
        descriptor: what a manifest says of it.
        diff_id: the digest of the tar archive inside (image-spec, "Layer DiffID").
        uncompressed_size_bytes: the size of that archive.
    """

    path: Path
    descriptor: Descriptor
    diff_id: str
    uncompressed_size_bytes: int


def libdeflate_gzip(data: bytes) -> bytes:
    """Compress in a CI job what many containers will download.

    Raises:
        ToolMissingError: the extra ``build`` is not installed.
    """
    try:
        import deflate  # noqa: PLC0415 -- only the build side has it
    except ImportError as error:
        raise ToolMissingError(
            "packing needs the Python package 'deflate'", hint="pip install 'glowplug[build]'"
        ) from error
    return cast("bytes", deflate.gzip_compress(data, _LIBDEFLATE_LEVEL))


def isal_gzip(data: bytes) -> bytes:
    """Compress beside a running server: fast, and with the base install.

    The library uses what the CPU has, so another CPU may compress the same bytes to others. Layers are told
    apart by what is in them (their diff_id), which does not change.
    """
    try:
        from isal import igzip  # noqa: PLC0415 -- not when nothing is packed
    except ImportError:
        return gzip.compress(data, 1, mtime=0)
    return igzip.compress(data, _ISAL_LEVEL, mtime=0)


@contextmanager
def new_layer(out_dir: Path, compress: Compress) -> Iterator[LayerWriter]:
    """Yield the writer of a layer in ``out_dir``, which is created; without ``finish``, no file is left.

    Raises:
        ToolMissingError: ``compress`` is not installed.
        GlowplugError: the folder cannot be written to, or a cache file cannot be read.
    """
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=out_dir, suffix=".partial", delete=False) as file:
            try:
                yield LayerWriter(file, compress)
            finally:
                Path(file.name).unlink(missing_ok=True)
    except OSError as error:
        raise GlowplugError(f"cannot pack into {out_dir}: {error.strerror} ({error.filename})") from error


class LayerWriter:
    """Writes one layer. Made by ``new_layer``."""

    def __init__(self, file: IO[bytes], compress: Compress) -> None:
        self._file = file
        self._compress = compress
        self._folders: set[str] = set()
        self._buffer = bytearray()
        self._tar_hash, self._tar_bytes = hashlib.sha256(), 0
        self._gzip_hash, self._gzip_bytes = hashlib.sha256(), 0

    def add_file(
        self, path: str, size_bytes: int, chunks: Iterable[bytes], *, executable: bool = False
    ) -> None:
        """Add a file below ``FOLDER``, after the folders that it is in.

        Raises:
            IntegrityError: the chunks are not ``size_bytes`` long.
            GlowplugError: the file is too large for a tar header, or the disk is full.
        """
        if size_bytes > tar.MAX_FILE_BYTES:
            raise GlowplugError(f"the cache file '{path}' is larger than 8 GiB, which no layer can hold")
        self._add(Member(f"{FOLDER}/{path}", MemberType.FILE, size_bytes, executable))
        written = 0
        for chunk in chunks:
            written += len(chunk)
            self._write(chunk)
        if written != size_bytes:
            raise IntegrityError(f"the cache file '{path}' changed while it was packed")
        self._write(bytes(tar.padding(size_bytes)))

    def add_link(self, path: str, target: str) -> None:
        """Add a symbolic link from one path below ``FOLDER`` to another."""
        self._add(Member(f"{FOLDER}/{path}", MemberType.LINK, target=link_target(path, target)))

    def finish(self, position: int) -> PackedLayer:
        """Close the archive; ``position`` tells the artifact's layers apart (see ``format.title``)."""
        self._write(tar.END)
        self._flush()
        diff_id, digest = f"sha256:{self._tar_hash.hexdigest()}", f"sha256:{self._gzip_hash.hexdigest()}"
        annotations = {TITLE: title(position), UNPACK: "true", CONTENT_DIGEST: diff_id}
        partial = Path(self._file.name)
        path = partial.with_name(f"{self._gzip_hash.hexdigest()}.tar.gz")
        self._file.close()
        partial.replace(path)
        return PackedLayer(
            path, Descriptor(LAYER_TYPE, digest, self._gzip_bytes, annotations), diff_id, self._tar_bytes
        )

    def _add(self, member: Member) -> None:
        # oras creates a folder only when it has an entry, and in the order of entries.
        for folder in _parents(member.path):
            if folder not in self._folders:
                self._folders.add(folder)
                self._write(tar.encode_member(Member(folder, MemberType.FOLDER)))
        self._write(tar.encode_member(member))

    def _write(self, data: bytes) -> None:
        self._tar_hash.update(data)
        self._tar_bytes += len(data)
        # Members end at fixed places of the archive, wherever the chunks end.
        while data:
            room = _MEMBER_BYTES - len(self._buffer)
            self._buffer += data[:room]
            data = data[room:]
            if len(self._buffer) == _MEMBER_BYTES:
                self._flush()

    def _flush(self) -> None:
        if not self._buffer:
            return
        member = self._compress(bytes(self._buffer))
        self._buffer.clear()
        self._gzip_hash.update(member)
        self._gzip_bytes += len(member)
        self._file.write(member)


def _parents(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]
