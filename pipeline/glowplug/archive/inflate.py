"""Reading a verified gzip file as the tar bytes in it, within limits."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import IO, cast

try:
    from isal import isal_zlib as zlib
except ImportError:  # twice the CPU time, the same result
    import zlib  # type: ignore[no-redef]

from glowplug.errors import IntegrityError

_CHUNK_BYTES = 128 * 1024
_BLOCK_BYTES = 1024 * 1024
_InflateError = cast("type[Exception]", zlib.error)
_GZIP = 31  # window of 15 bits, plus 16 for gzip's header and trailer (zlib manual, inflateInit2)


class TarBytes:
    """The uncompressed bytes of one layer.

    Args:
        blob: the compressed file, at its start.
        account: told of every block's size before the block is used; raises when a limit is exceeded.
        name: what to call the layer in an error: its digest.
        hashed: whether their digest will be asked for.
    """

    def __init__(self, blob: IO[bytes], account: Callable[[int], None], name: str, *, hashed: bool) -> None:
        self._blocks = _inflate(blob)
        self._account = account
        self._name = name
        self._hash = hashlib.sha256() if hashed else None
        self._block = memoryview(b"")
        self._position = 0  # in the block

    @property
    def digest(self) -> str:
        """The digest of what was read so far; of the whole archive after ``expect_zeros_to_end``."""
        assert self._hash is not None, "the digest was not to be asked for"  # noqa: S101
        return f"sha256:{self._hash.hexdigest()}"

    def read(self, size_bytes: int) -> bytes:
        """Return exactly so many bytes.

        Raises:
            IntegrityError: the archive ends before, cannot be inflated, or exceeds a limit.
        """
        end = self._position + size_bytes
        if end > len(self._block):
            return b"".join(self.pieces(size_bytes))
        # As good as always, for a header or a padding: thousands of members pass here.
        data = bytes(self._block[self._position : end])
        self._position = end
        return data

    def pieces(self, size_bytes: int) -> Iterator[memoryview]:
        """Yield exactly so many bytes without copying them."""
        while size_bytes:
            piece = self._block[self._position : self._position + size_bytes]
            if not piece:
                if not self._next_block():
                    raise IntegrityError(f"layer {self._name} ends in the middle of its archive")
                continue
            self._position += len(piece)
            size_bytes -= len(piece)
            yield piece

    def expect_zeros_to_end(self) -> None:
        """Read what follows the archive's end mark: only padding may.

        Raises:
            IntegrityError: something does.
        """
        while True:
            if any(self._block[self._position :]):
                raise IntegrityError(f"layer {self._name} goes on after the end of its archive")
            if not self._next_block():
                return

    def _next_block(self) -> bool:
        try:
            block = next(self._blocks, b"")
        except (_InflateError, EOFError) as error:
            raise IntegrityError(f"layer {self._name} is no intact gzip file") from error
        self._account(len(block))
        if self._hash is not None:
            self._hash.update(block)
        self._block, self._position = memoryview(block), 0
        return bool(block)


def _inflate(blob: IO[bytes]) -> Iterator[bytes]:
    """Yield the content of every gzip member; whatever follows the last one has to be another."""
    decoder = zlib.decompressobj(_GZIP)
    while data := blob.read(_CHUNK_BYTES):
        while data:
            if decoder.eof:
                decoder = zlib.decompressobj(_GZIP)
            block = decoder.decompress(data, _BLOCK_BYTES)
            if block:
                yield block
            data = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
    while not decoder.eof:
        block = decoder.decompress(b"", _BLOCK_BYTES)
        if not block:
            raise EOFError
        yield block
