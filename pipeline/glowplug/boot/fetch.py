"""Fetch: resolve, choose, verify, unpack into place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from glowplug.archive.unpack import Layer, unpack
from glowplug.boot.access import Access, StoredSource, open_repository
from glowplug.boot.place import require_usable
from glowplug.boot.resolve import NotAnArtifactError, Resolution, resolve
from glowplug.caches.table import relocation
from glowplug.core.integrity import CopyBlob
from glowplug.core.oci import Descriptor, Manifest, decode
from glowplug.core.record import RECORD_LABEL, Record, parse_record
from glowplug.core.reference import Reference
from glowplug.core.target import Target
from glowplug.errors import IntegrityError
from glowplug.registry.source import Source, read_blob
from glowplug.report.console import Console, size_text

# A config holds labels and diff_ids; the record in it is some ten kilobytes.
_MAX_CONFIG_BYTES = 4 * 1024 * 1024


class Fetched(NamedTuple):
    """An artifact in place.

    Attributes:
        reference: what was asked for.
        digest: of the manifest that was chosen.
        path: where its caches are now, absolute.
        record: what it says about itself.
        files, size_bytes: what was unpacked.
        transferred_bytes: what was read from the repository.
    """

    reference: Reference
    digest: str
    path: Path
    record: Record
    files: int
    size_bytes: int
    transferred_bytes: int

    def to_json(self) -> dict[str, Any]:
        """Return the result for scripts."""
        return {
            "reference": str(self.reference),
            "digest": self.digest,
            "path": str(self.path),
            "target": self.record.target.gpu_type,
            "files": self.files,
            "size_bytes": self.size_bytes,
            "transferred_bytes": self.transferred_bytes,
        }


class Chosen(NamedTuple):
    """What fits this host, before any layer is read."""

    reference: Reference
    resolution: Resolution
    record: Record
    diff_ids: tuple[str, ...]

    @property
    def manifest(self) -> Manifest:
        """The manifest that was chosen."""
        return self.resolution.manifest


def fetch(reference: Reference, host: Target, destination: Path, access: Access, console: Console) -> Fetched:
    """Put the artifact that fits ``host`` at ``destination``, completely or not at all.

    Raises:
        UnavailableError, DeniedError, NotFoundError: the repository cannot be read, or has no such artifact.
        NoCompatibleTargetError: nothing in it fits.
        IntegrityError: some byte is not what it should be; nothing was unpacked.
        UsageError: the destination is taken, cannot be written, or is mounted noexec.
    """
    path = destination.absolute()
    require_usable(path)
    with (
        console.step(f"Fetch {reference}") as step,
        open_artifact(reference, host, access, console.note) as (source, chosen),
    ):
        fetched = put_in_place(source, chosen, path, step.progress)
        kept = f"{fetched.files} files, {size_text(fetched.size_bytes)}"
        step.result = f"{chosen.record.target.gpu_type}, {kept}"
    return fetched


@contextmanager
def open_artifact(
    reference: Reference, host: Target, access: Access, note: Callable[[str], None]
) -> Iterator[tuple[Source, Chosen]]:
    """Open the repository of what fits ``host``: the reference's own, or the one that a model's image is linked to.

    Only a reference that names no artifact costs the requests that looking for links takes.

    Raises:
        GlowplugError: see ``fetch``.
    """
    with ExitStack() as stack:
        source = stack.enter_context(open_repository(reference.repository, access, note))
        try:
            chosen = choose_artifact(source, reference, host)
        except NotAnArtifactError as error:
            # Few need it.
            from glowplug.boot.linked import by_tag_or_digest, linked_cache, options_for  # noqa: PLC0415

            cache = linked_cache(source, reference, error.document, host)
            if cache is None:
                raise
            note(f"{reference} is linked to {cache}")
            linked = access._replace(registry=options_for(cache, reference, access.registry))
            source = stack.enter_context(open_repository(cache.repository, linked, note))
            chosen = by_tag_or_digest(lambda wanted: choose_artifact(source, wanted, host), cache)
        yield source, chosen


def choose_artifact(source: Source, reference: Reference, host: Target) -> Chosen:
    """Find what fits ``host``, and read what it says of itself: two or three small documents.

    Raises:
        GlowplugError: see ``fetch``.
    """
    resolution = resolve(source, reference, host)
    record, diff_ids = read_config(source, resolution)
    return Chosen(reference, resolution, record, diff_ids)


def put_in_place(source: Source, chosen: Chosen, path: Path, progress: Callable[[str], None]) -> Fetched:
    """Read the layers and unpack them at ``path``, which is absolute.

    Raises:
        GlowplugError: see ``fetch``.
    """
    total = chosen.manifest.size_bytes
    # Layers are read in several threads; each counts for itself.
    received: dict[str, int] = {}

    def copying(descriptor: Descriptor) -> CopyBlob:
        def copy(file: IO[bytes], on_bytes: Callable[[int], None]) -> None:
            def seen(received_bytes: int) -> None:
                on_bytes(received_bytes)
                received[descriptor.digest] = received_bytes
                progress(f"{size_text(sum(list(received.values())))} of {size_text(total)}")

            source.copy_blob(descriptor, file, seen)

        return copy

    # No diff_id is asked for: the builder's proof compared them, and equal compressed bytes are equal content.
    layers = (Layer(descriptor, copying(descriptor)) for descriptor in chosen.manifest.layers)
    summary = unpack(layers, path, relocation=relocation(path))
    if isinstance(source, StoredSource):
        source.file_receipt(chosen.reference, chosen.resolution.digest, chosen.record.target.gpu_type)
    return Fetched(
        chosen.reference,
        chosen.resolution.digest,
        path,
        chosen.record,
        summary.files,
        summary.size_bytes,
        total,
    )


def read_config(source: Source, resolution: Resolution) -> tuple[Record, tuple[str, ...]]:
    """Read an artifact's record, and the digests of its uncompressed layers, from its image config.

    Raises:
        IntegrityError: the config is not what the manifest says, or contradicts it.
    """
    descriptor = resolution.manifest.config
    if descriptor.size_bytes > _MAX_CONFIG_BYTES:
        raise IntegrityError(f"config {descriptor.digest} is larger than any config may be (4 MiB)")
    raw = read_blob(source, descriptor)
    try:
        config = decode(raw)
        diff_ids = tuple(str(item) for item in config["rootfs"]["diff_ids"])
        label = str(config["config"]["Labels"][RECORD_LABEL])
    except (ValueError, KeyError, TypeError) as error:
        raise IntegrityError(f"config {descriptor.digest} is not that of a glowplug artifact") from error
    _require_diff_ids(descriptor.digest, resolution.manifest, diff_ids)
    record = parse_record(label.encode())
    if record.target != resolution.target:
        raise IntegrityError(f"config {descriptor.digest} is for another target than its manifest says")
    return record, diff_ids


def _require_diff_ids(digest: str, manifest: Manifest, diff_ids: tuple[str, ...]) -> None:
    if len(diff_ids) != len(manifest.layers):
        raise IntegrityError(
            f"config {digest} lists {len(diff_ids)} layers, its manifest {len(manifest.layers)}"
        )
