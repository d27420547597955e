"""The compressed bytes of a layer, which nobody reads before their digest was found right."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from glowplug.core.oci import LAYER_TYPE, Descriptor
from glowplug.errors import GlowplugError, IntegrityError

_CHUNK_BYTES = 1024 * 1024


@contextmanager
def verified(descriptor: Descriptor, content: Iterable[bytes] | Path, folder: Path) -> Iterator[IO[bytes]]:
    """Yield a layer as a file at its start, whose size and digest are those of its descriptor.

    Args:
        descriptor: what the manifest says of the layer.
        content: its bytes as they arrive, or a file that holds them.
        folder: where bytes that arrive are kept meanwhile.

    Raises:
        IntegrityError: media type, size or digest differ.
        GlowplugError: the file that holds the layer cannot be read.
    """
    if descriptor.media_type != LAYER_TYPE:
        raise IntegrityError(
            f"layer {descriptor.digest} is of type {descriptor.media_type}, not {LAYER_TYPE}"
        )
    if isinstance(content, Path):
        with _open(content, descriptor) as blob:
            for _ in _checked(iter(lambda: blob.read(_CHUNK_BYTES), b""), descriptor):
                pass
            blob.seek(0)
            yield blob
        return
    # A file without a name: gone with the process, however that ends.
    with tempfile.TemporaryFile(dir=folder) as spool:
        for chunk in _checked(content, descriptor):
            spool.write(chunk)
        spool.seek(0)
        yield spool


def _open(path: Path, descriptor: Descriptor) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise GlowplugError(f"cannot read layer {descriptor.digest} from {path}: {error.strerror}") from error


def _checked(chunks: Iterable[bytes], descriptor: Descriptor) -> Iterator[bytes]:
    digest, size_bytes = hashlib.sha256(), 0
    for chunk in chunks:
        size_bytes += len(chunk)
        if size_bytes > descriptor.size_bytes:
            break
        digest.update(chunk)
        yield chunk
    if size_bytes != descriptor.size_bytes:
        raise IntegrityError(f"layer {descriptor.digest} is not {descriptor.size_bytes} bytes long")
    if f"sha256:{digest.hexdigest()}" != descriptor.digest:
        raise IntegrityError(f"layer {descriptor.digest} has the digest sha256:{digest.hexdigest()}")
