"""Bytes that are checked on their way through, once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import IO

from glowplug.core.oci import Descriptor
from glowplug.errors import IntegrityError

CopyBlob = Callable[[IO[bytes], Callable[[int], None]], None]
"""Writes a blob into a file, and nothing else than that blob, or raises; tells how many bytes there are so far."""


def fill(
    file: IO[bytes], chunks: Iterable[bytes], descriptor: Descriptor, on_bytes: Callable[[int], None]
) -> None:
    """Make ``file`` hold exactly the described bytes, whatever it held before.

    Args:
        file: stands at its end afterwards.
        chunks: the bytes as they arrive.
        descriptor: what they have to be.
        on_bytes: told after every chunk how many bytes there are; may raise, to stop.

    Raises:
        IntegrityError: longer, shorter or other bytes arrived; then the file holds some of them.
    """
    file.seek(0)
    file.truncate()
    received_bytes = 0
    for chunk in verified(chunks, descriptor):
        file.write(chunk)
        received_bytes += len(chunk)
        on_bytes(received_bytes)


def verified(chunks: Iterable[bytes], descriptor: Descriptor) -> Iterator[bytes]:
    """Pass ``chunks`` on while checking them; whoever drains the iterator holds exactly the described bytes.

    Raises:
        IntegrityError: more bytes arrive than described (they are not passed on), or fewer, or other ones.
    """
    sha256 = hashlib.sha256()
    received_bytes = 0
    for chunk in chunks:
        received_bytes += len(chunk)
        if received_bytes > descriptor.size_bytes:
            raise IntegrityError(
                f"blob {descriptor.digest} is longer than the {descriptor.size_bytes} bytes promised"
            )
        sha256.update(chunk)
        yield chunk
    if received_bytes < descriptor.size_bytes:
        raise IntegrityError(
            f"blob {descriptor.digest} ended after {received_bytes} of {descriptor.size_bytes} bytes"
        )
    if f"sha256:{sha256.hexdigest()}" != descriptor.digest:
        raise IntegrityError(
            f"blob {descriptor.digest} holds other bytes: their digest is sha256:{sha256.hexdigest()}",
            hint="the stored copy is damaged or was tampered with; publish it again",
        )
