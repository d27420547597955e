"""From a cache root to the layers of an artifact. The same content always gives the same digests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from glowplug.archive.format import MAX_LAYERS
from glowplug.archive.layer_writer import Compress, PackedLayer, libdeflate_gzip, new_layer
from glowplug.core.inventory import FileEntry, Inventory, Relocation, Rewrite, in_place
from glowplug.errors import IntegrityError

# The record's layer has the first position, so that it can be written last: after the proof.
_RECORD_POSITION = 0
# Small enough that a cache of a few hundred megabytes is pulled and unpacked in parallel.
_LAYER_BYTES = 32 * 1024 * 1024
# A link costs a header of its own; below this it saves nothing.
_MIN_LINKED_BYTES = 4096
_CHUNK_BYTES = 1024 * 1024


def pack(
    cache_root: Path,
    inventory: Inventory,
    out_dir: Path,
    relocation: Relocation = in_place,
    compress: Compress = libdeflate_gzip,
) -> tuple[PackedLayer, ...]:
    """Write the files of ``inventory`` as layers into ``out_dir``; at most ``MAX_LAYERS`` with the record's.

    Args:
        cache_root: where the files are.
        inventory: which files, with the digests that they have in the artifact.
        out_dir: created if missing; each layer's file is named by its digest.
        relocation: rewrites files that hold absolute paths into the form they have in the artifact.
        compress: the run side has ``isal_gzip`` only.

    Raises:
        IntegrityError: a file is not what the inventory says.
        ToolMissingError: ``compress`` is not installed.
    """
    originals = _originals(inventory.files, relocation)
    layers = []
    for position, files in enumerate(_split(inventory.files, originals), start=_RECORD_POSITION + 1):
        with new_layer(out_dir, compress) as writer:
            for entry in files:
                original = originals[entry.path]
                if original == entry.path:
                    content = _content(cache_root / entry.path, entry, relocation)
                    writer.add_file(entry.path, entry.size_bytes, content, executable=entry.executable)
                else:
                    writer.add_link(entry.path, original)
            layers.append(writer.finish(position))
    return tuple(layers)


def pack_files(
    files: Mapping[str, bytes], out_dir: Path, compress: Compress = libdeflate_gzip
) -> PackedLayer:
    """Write the small layer that describes an artifact: ``record.json`` and what else is beside the kinds."""
    with new_layer(out_dir, compress) as writer:
        for path in sorted(files):
            writer.add_file(path, len(files[path]), [files[path]])
        return writer.finish(_RECORD_POSITION)


def _originals(files: Sequence[FileEntry], relocation: Relocation) -> dict[str, str]:
    """Map every path to the first path of its kind with the same content: itself, or what it will link to.

    Libraries are not linked: the loader takes two names of one file for one library, whose variables would be
    shared. Nor are files that hold absolute paths, since each is rewritten on its own.
    """
    first: dict[tuple[str, str, bool], str] = {}
    out: dict[str, str] = {}
    for entry in sorted(files):
        may_link = (
            entry.size_bytes >= _MIN_LINKED_BYTES
            and not entry.path.endswith(".so")
            and relocation(entry.path) is None
        )
        identity = (entry.kind, entry.sha256, entry.executable)
        out[entry.path] = first.setdefault(identity, entry.path) if may_link else entry.path
    return out


def _split(files: Sequence[FileEntry], originals: Mapping[str, str]) -> Iterator[list[FileEntry]]:
    """Split by kind, then into layers of about equal size; a link is in the layer of what it links to."""
    stored = [entry for entry in sorted(files) if originals[entry.path] == entry.path]
    kinds = sorted({entry.kind for entry in stored})
    total = sum(entry.size_bytes for entry in stored)
    # Every kind rounds up to a whole layer, hence the allowance of one layer each.
    target = max(_LAYER_BYTES, -(-total // max(MAX_LAYERS - 1 - len(kinds), 1)))
    links: dict[str, list[FileEntry]] = {}
    for entry in sorted(files):
        if originals[entry.path] != entry.path:
            links.setdefault(originals[entry.path], []).append(entry)
    for kind in kinds:
        for part in _parts([entry for entry in stored if entry.kind == kind], target):
            yield sorted(item for entry in part for item in (entry, *links.get(entry.path, ())))


def _parts(files: Sequence[FileEntry], target_bytes: int) -> Iterator[list[FileEntry]]:
    total = sum(entry.size_bytes for entry in files)
    count = max(-(-total // target_bytes), 1)
    parts: list[list[FileEntry]] = [[] for _ in range(count)]
    before = 0
    for entry in files:
        parts[min(before * count // max(total, 1), count - 1)].append(entry)
        before += entry.size_bytes
    yield from filter(None, parts)


def _content(file: Path, entry: FileEntry, relocation: Relocation) -> Iterator[bytes]:
    digest = hashlib.sha256()
    for chunk in _chunks(file, relocation(entry.path)):
        digest.update(chunk)
        yield chunk
    if digest.hexdigest() != entry.sha256:
        raise IntegrityError(f"the cache file '{entry.path}' changed while it was packed")


def _chunks(file: Path, rewrite: Rewrite | None) -> Iterator[bytes]:
    with file.open("rb") as stream:
        if rewrite is not None:
            yield rewrite(stream.read())
            return
        while chunk := stream.read(_CHUNK_BYTES):
            yield chunk
