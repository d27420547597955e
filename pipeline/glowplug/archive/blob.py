"""The compressed bytes of a layer, which nobody inflates before their digest was found right."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from glowplug.core.integrity import CopyBlob, verified
from glowplug.core.oci import LAYER_TYPE, Descriptor
from glowplug.errors import GlowplugError, IntegrityError

_CHUNK_BYTES = 1024 * 1024


@contextmanager
def opened(
    descriptor: Descriptor, content: CopyBlob | Path, folder: Path, on_bytes: Callable[[int], None]
) -> Iterator[IO[bytes]]:
    """Yield a layer as a file at its start, whose size and digest are those of its descriptor.

    Args:
        descriptor: what the manifest says of the layer.
        content: what writes it into a file, or a file of our own that holds it.
        folder: where it is kept meanwhile.
        on_bytes: told how many bytes there are; may raise, to stop.

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
            for _ in verified(iter(lambda: blob.read(_CHUNK_BYTES), b""), descriptor):
                pass
            blob.seek(0)
            yield blob
        return
    # A file without a name: gone with the process, however that ends, and nobody else's to change.
    with tempfile.TemporaryFile(dir=folder) as spool:
        content(spool, on_bytes)
        spool.seek(0)
        yield spool


def _open(path: Path, descriptor: Descriptor) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise GlowplugError(f"cannot read layer {descriptor.digest} from {path}: {error.strerror}") from error
