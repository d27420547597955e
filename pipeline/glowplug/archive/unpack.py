"""From the layers of an artifact to a cache root, which torch will execute.

What makes that safe (docs/explanation/threat-model.md):
1. a layer's bytes match the manifest's digest and size before any of them is inflated;
2. every entry is judged before anything is created for it;
3. links are created last, so that nothing can be written through one;
4. the tree appears at its destination by one rename, after every layer was read to its end.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from threading import Event, Semaphore, Thread
from typing import IO, NamedTuple

from glowplug.archive.blob import opened
from glowplug.archive.destination import staged
from glowplug.archive.entries import Entries
from glowplug.archive.format import CONTENT_DIGEST
from glowplug.archive.inflate import TarBytes
from glowplug.archive.limits import LIMITS, Limits
from glowplug.archive.tar import MemberType, padding, read_member
from glowplug.archive.tree import Tree
from glowplug.core.integrity import CopyBlob
from glowplug.core.inventory import Relocation, in_place
from glowplug.core.oci import Descriptor
from glowplug.errors import IntegrityError

# Each layer is a connection while it arrives. Inflating and writing run without the interpreter's lock, and gain nothing
# from more threads than these.
_ARRIVING = 8
_EXTRACTING = 4
_INTERRUPT_S = 1.0


class Layer(NamedTuple):
    """A layer to unpack.

    Attributes:
        descriptor: what the manifest says of it.
        content: what writes the compressed bytes into a file, in a thread, or a file that holds them.
        diff_id: digest of the uncompressed bytes, to compare; empty where equal compressed ones are enough.
    """

    descriptor: Descriptor
    content: CopyBlob | Path
    diff_id: str = ""


class UnpackSummary(NamedTuple):
    """What was put in place: files (links count as such), their uncompressed and the transferred bytes."""

    files: int
    size_bytes: int
    compressed_size_bytes: int


def unpack(
    layers: Iterable[Layer],
    destination: Path,
    *,
    relocation: Relocation = in_place,
    limits: Limits = LIMITS,
) -> UnpackSummary:
    """Put the content of an artifact's folder at ``destination``, completely or not at all.

    Args:
        layers: read a few at a time, in threads.
        destination: must not exist, or be an empty folder; its parents are created.
        relocation: rewrites files that hold absolute paths for ``destination``.
        limits: bounds on what the archives may ask for.

    Raises:
        IntegrityError: a layer is not what its descriptor says, or holds what an artifact may not hold.
        UsageError: the destination is taken, or cannot be written to.
        GlowplugError: the disk is full or fails, or a layer's file cannot be read.
    """
    wanted = tuple(layers)
    entries = Entries(limits)
    with staged(destination) as staging:
        tree = Tree(staging / "tree", relocation, limits)
        _read_all(wanted, _Reading(staging, entries, tree, Event(), Semaphore(_EXTRACTING)))
        for path, target in entries.links().items():
            tree.link(path, target)
    files = entries.paths(MemberType.FILE, MemberType.LINK)
    compressed_size_bytes = sum(layer.descriptor.size_bytes for layer in wanted)
    return UnpackSummary(len(files), entries.total_bytes, compressed_size_bytes)


class _Reading(NamedTuple):
    """What the layers of one artifact share while they are read in parallel."""

    staging: Path
    entries: Entries
    tree: Tree
    abandoned: Event
    extracting: Semaphore

    def read(self, layer: Layer) -> None:
        """Verify one layer and create its files."""
        with opened(layer.descriptor, layer.content, self.staging, self._go_on) as blob, self.extracting:
            self._extract(layer, blob)

    def _extract(self, layer: Layer, blob: IO[bytes]) -> None:
        name = layer.descriptor.digest
        archive = TarBytes(blob, self.entries.meter(layer.descriptor), name, hashed=bool(layer.diff_id))
        folders: set[str] = set()
        while (member := read_member(archive.read)) is not None and not self.abandoned.is_set():
            self.entries.claim(member, folders)
            if member.type is MemberType.FOLDER:
                self.tree.folder(member.path)
            elif member.type is MemberType.FILE:
                self.tree.file(member, archive.pieces(member.size_bytes))
                archive.read(padding(member.size_bytes))
        archive.expect_zeros_to_end()
        if not layer.diff_id:
            return
        for expected in (layer.diff_id, layer.descriptor.annotations.get(CONTENT_DIGEST, layer.diff_id)):
            if expected != archive.digest:
                raise IntegrityError(f"layer {name} holds the archive {archive.digest}, not {expected}")

    def _go_on(self, _received_bytes: int) -> None:
        if self.abandoned.is_set():
            raise _AbandonedError


class _AbandonedError(Exception):
    """Another layer has failed, and its error is the one to report."""


def _read_all(layers: tuple[Layer, ...], reading: _Reading) -> None:
    """Read every layer, or raise the first error of any. Plain threads: importing concurrent.futures takes 6 ms."""
    waiting, errors = deque(layers), list[BaseException]()

    def work() -> None:
        try:
            while (layer := _next(waiting)) is not None:
                reading.read(layer)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)
            waiting.clear()
            reading.abandoned.set()

    threads = [Thread(target=work, name="unpack", daemon=True) for _ in layers[:_ARRIVING]]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:
        waiting.clear()
        reading.abandoned.set()
        # They end with their next bytes; an interrupt does not wait until a silent registry sends some.
        give_up = time.monotonic() + _INTERRUPT_S
        for thread in filter(Thread.is_alive, threads):
            thread.join(max(0.0, give_up - time.monotonic()))
        raise
    if errors:
        raise errors[0]


def _next(waiting: deque[Layer]) -> Layer | None:
    try:
        return waiting.popleft()
    except IndexError:
        return None
