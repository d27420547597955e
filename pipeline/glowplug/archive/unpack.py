"""From the layers of an artifact to a cache root, which torch will execute.

What makes that safe (docs/explanation/threat-model.md):
1. a layer's bytes match the manifest's digest and size before any of them is inflated;
2. every entry is judged before anything is created for it;
3. links are created last, so that nothing can be written through one;
4. the tree appears at its destination by one rename, after every layer matched its diff_id.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from glowplug.archive.destination import staged
from glowplug.archive.entries import Entries
from glowplug.archive.format import CONTENT_DIGEST
from glowplug.archive.inflate import TarBytes
from glowplug.archive.limits import LIMITS, Limits
from glowplug.archive.tar import MemberType, padding, read_member
from glowplug.archive.tree import Tree
from glowplug.core.inventory import Relocation, in_place
from glowplug.core.oci import LAYER_TYPE, Descriptor
from glowplug.errors import IntegrityError

_CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Layer:
    """A layer to unpack.

    Attributes:
        descriptor: what the manifest says of it.
        content: the compressed bytes as they arrive, or a file that holds them.
        diff_id: what the image's config says of it; empty when only the descriptor is at hand.
    """

    descriptor: Descriptor
    content: Iterable[bytes] | Path
    diff_id: str = ""


@dataclass(frozen=True)
class UnpackSummary:
    """What was put in place: files (links count as such), their uncompressed and the transferred bytes."""

    files: int
    size_bytes: int
    compressed_size_bytes: int


def unpack(
    layers: Iterable[Layer],
    destination: Path,
    *,
    relocation: Relocation = in_place,
    owner: tuple[int, int] | None = None,
    limits: Limits = LIMITS,
) -> UnpackSummary:
    """Put the content of an artifact's folder at ``destination``, completely or not at all.

    Args:
        layers: read one after the other.
        destination: must not exist, or be an empty folder; its parents are created.
        relocation: rewrites files that hold absolute paths for ``destination``.
        owner: user and group id of what is created; needs root. ``None``: the current user's.
        limits: bounds on what the archives may ask for.

    Raises:
        IntegrityError: a layer is not what its descriptor says, or holds what an artifact may not hold.
        UsageError: the destination is taken, or cannot be written to.
        GlowplugError: the disk is full or fails.
    """
    entries = Entries(limits)
    compressed_size_bytes = 0
    with staged(destination) as staging:
        tree = Tree(staging / "tree", relocation, limits)
        for layer in layers:
            with _verified(layer, staging) as blob:
                _extract(layer, blob, entries, tree)
            compressed_size_bytes += layer.descriptor.size_bytes
        for path, target in entries.links().items():
            tree.link(path, target)
        if owner is not None:
            tree.give_to(owner)
    files = entries.paths(MemberType.FILE, MemberType.LINK)
    return UnpackSummary(len(files), entries.total_bytes, compressed_size_bytes)


@contextmanager
def _verified(layer: Layer, staging: Path) -> Iterator[IO[bytes]]:
    """Yield the compressed bytes as a file, after its size and digest were found right."""
    descriptor = layer.descriptor
    if descriptor.media_type != LAYER_TYPE:
        raise IntegrityError(
            f"layer {descriptor.digest} is of type {descriptor.media_type}, not {LAYER_TYPE}"
        )
    if isinstance(layer.content, Path):
        with layer.content.open("rb") as blob:
            for _ in _checked(iter(lambda: blob.read(_CHUNK_BYTES), b""), descriptor):
                pass
            blob.seek(0)
            yield blob
        return
    # A file without a name: gone with the process, however that ends.
    with tempfile.TemporaryFile(dir=staging) as spool:
        for chunk in _checked(layer.content, descriptor):
            spool.write(chunk)
        spool.seek(0)
        yield spool


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


def _extract(layer: Layer, blob: IO[bytes], entries: Entries, tree: Tree) -> None:
    name = layer.descriptor.digest
    archive = TarBytes(blob, entries.meter(layer.descriptor), name)
    folders: set[str] = set()
    while (member := read_member(archive.read)) is not None:
        entries.claim(member, folders)
        if member.type is MemberType.FOLDER:
            tree.folder(member.path)
        elif member.type is MemberType.FILE:
            tree.file(member, archive.pieces(member.size_bytes))
            archive.read(padding(member.size_bytes))
    archive.expect_zeros_to_end()
    for expected in (layer.diff_id, layer.descriptor.annotations.get(CONTENT_DIGEST, "")):
        if expected and expected != archive.digest:
            raise IntegrityError(f"layer {name} holds the archive {archive.digest}, not {expected}")
