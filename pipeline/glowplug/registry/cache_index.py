"""The index of a model version: derived from the tags of its artifacts, so it can be made again at any time.

OCI registries have no compare-and-swap, and jobs that finish together overwrite each other's index. So each writer
lists the tags once more after it wrote, and writes again if there are others now. A job tags its artifact before it
writes the index; hence the last writer, whoever it is, has every tag in its last list.
"""

from __future__ import annotations

from dataclasses import dataclass

from glowplug.core.artifact import architecture_of
from glowplug.core.oci import MANIFEST_TYPE, Descriptor, Document, Index, Platform, parse_manifest
from glowplug.core.record import (
    ANNOTATION_FORMAT,
    ANNOTATION_MODEL,
    ANNOTATION_VERSION,
    FORMAT,
)
from glowplug.core.spec import version_tag
from glowplug.core.target import target_from_annotations
from glowplug.errors import IntegrityError, NotFoundError, UnavailableError
from glowplug.registry.sink import Sink
from glowplug.registry.source import Source

# More matrix jobs than this do not finish within the same second.
_MAX_ROUNDS = 20


@dataclass(frozen=True)
class Entry:
    """One artifact of a version: its tag, and the descriptor that the index has of it."""

    tag: str
    descriptor: Descriptor


def find_entries(source: Source, version: str) -> list[Entry]:
    """Return the artifacts of a version, one per GPU type, in the order of their tags."""
    tag = version_tag(version)
    entries = []
    for candidate in source.tags():
        if not candidate.startswith(f"{tag}-"):
            continue
        try:
            document = source.resolve(candidate)
        except NotFoundError:
            continue  # deleted since the tags were listed
        descriptor = _describe(document, version)
        # `v1-rc-h100-sm90` starts like a tag of version `v1`; what the manifest says decides.
        if descriptor is not None and candidate == f"{tag}-{_gpu_type(descriptor)}":
            entries.append(Entry(candidate, descriptor))
    return entries


def make_index(model: str, version: str, entries: list[Entry]) -> Document:
    """Return the index document; equal entries give equal bytes."""
    annotations = {
        ANNOTATION_FORMAT: str(FORMAT),
        ANNOTATION_MODEL: model,
        ANNOTATION_VERSION: version,
        "org.opencontainers.image.version": version,
    }
    return Index(tuple(entry.descriptor for entry in entries), annotations).document()


def update_index(sink: Sink, model: str, version: str) -> tuple[Document, list[Entry]]:
    """Make a version's index from its tags, and tag it; nothing is written when it is as it should be.

    Raises:
        NotFoundError: the version has no artifact.
        UnavailableError: the tag keeps changing.
    """
    tag = version_tag(version)
    for _ in range(_MAX_ROUNDS):
        entries = find_entries(sink, version)
        if not entries:
            raise NotFoundError(f"no artifact of version {version}", hint="glowplug build makes one")
        document = make_index(model, version, entries)
        if current_digest(sink, tag) == document.digest:
            return document, entries
        sink.put_document(document, tag)
    raise UnavailableError(
        f"the index {tag} is not what was written to it, {_MAX_ROUNDS} times in a row",
        hint="see whether something else keeps writing that tag; then run glowplug index",
    )


def current_digest(source: Source, tag: str) -> str | None:
    """Return what a tag points to, ``None`` when it does not exist or is damaged."""
    try:
        return source.resolve(tag).digest
    except (NotFoundError, IntegrityError):
        return None


def _describe(document: Document, version: str) -> Descriptor | None:
    if document.media_type != MANIFEST_TYPE:
        return None
    manifest = parse_manifest(document)
    target = target_from_annotations(manifest.annotations)
    if target is None or manifest.annotations.get(ANNOTATION_VERSION) != version:
        return None
    # The GPU's architecture as `variant`: tools that do not ask for it find no match, instead of the wrong GPU's cache.
    platform = Platform(target.os, architecture_of(target.machine), target.device_arch)
    return document.descriptor(manifest.annotations, platform)


def _gpu_type(descriptor: Descriptor) -> str:
    target = target_from_annotations(descriptor.annotations)
    return target.gpu_type if target else ""
