"""Bytes that are checked on their way through."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from glowplug.core.oci import Descriptor
from glowplug.errors import IntegrityError


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
