"""From a reference to the one manifest that fits this host, or to the reasons why none does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from glowplug.core.compat import Candidate, Verdict, choose
from glowplug.core.oci import (
    CONFIG_TYPE,
    INDEX_TYPE,
    MANIFEST_TYPE,
    Descriptor,
    Document,
    Manifest,
    parse_index,
    parse_manifest,
)
from glowplug.core.record import ANNOTATION_FORMAT, FORMAT
from glowplug.core.reference import Reference
from glowplug.core.target import Target, target_from_annotations
from glowplug.errors import IntegrityError, NoCompatibleTargetError, NotFoundError
from glowplug.registry.source import Source


class Resolution(NamedTuple):
    """The artifact that was chosen.

    Attributes:
        digest: of its manifest.
        manifest: its content.
        target: what it is for.
        trace: the verdict on every candidate, the closest first.
    """

    digest: str
    manifest: Manifest
    target: Target
    trace: tuple[Verdict, ...]


class NotAnArtifactError(NotFoundError):
    """The reference names something else, perhaps the model's image; ``document`` is what it names."""

    def __init__(self, reference: Reference, document: Document) -> None:
        super().__init__(
            f"{reference} is not a glowplug artifact",
            hint="glowplug build pushes to <artifact>:<version>, and links the image of run.image to it; "
            "look for a misspelt name",
        )
        self.document = document


def read_candidates(source: Source, reference: Reference) -> tuple[Candidate, ...]:
    """Return what a reference offers: an index's entries, or the one artifact that it names.

    Raises:
        NotFoundError: the reference names nothing; a ``NotAnArtifactError`` when it names something else.
        IntegrityError: it is one of another format.
    """
    document = source.resolve(reference.selector)
    offered: tuple[Descriptor, ...] = ()
    if document.media_type == INDEX_TYPE:
        offered = parse_index(document).manifests
    elif document.media_type == MANIFEST_TYPE:
        offered = (document.descriptor(parse_manifest(document).annotations),)
    candidates = tuple(filter(None, map(_candidate, offered)))
    formats = {entry.annotations.get(ANNOTATION_FORMAT) for entry in offered} - {None, str(FORMAT)}
    if not candidates and formats:
        raise IntegrityError(
            f"{reference} has format {', '.join(sorted(map(ascii, formats)))}; this version reads {FORMAT}",
            hint="update glowplug, or build the artifact again",
        )
    if not candidates:
        raise NotAnArtifactError(reference, document)
    return candidates


def resolve(source: Source, reference: Reference, host: Target) -> Resolution:
    """Choose what fits ``host`` among what the reference offers, and read its manifest.

    Raises:
        NotFoundError: the reference names no glowplug artifact.
        NoCompatibleTargetError: nothing fits; the message holds the trace.
        IntegrityError: the manifest is not what the index says.
    """
    best, trace = require_fit(reference, read_candidates(source, reference), host)
    document = source.resolve(best.descriptor.digest)
    manifest = parse_manifest(document)
    _require_consistent(document, manifest, best)
    return Resolution(document.digest, manifest, best.target, trace)


def require_fit(
    reference: Reference, candidates: Sequence[Candidate], host: Target
) -> tuple[Candidate, tuple[Verdict, ...]]:
    """Return what fits ``host``, and the verdict on every candidate.

    Raises:
        NoCompatibleTargetError: nothing fits; the message holds the trace.
    """
    best, trace = choose(candidates, host)
    if best is None:
        reasons = "".join(f"\n  {verdict}" for verdict in trace)
        raise NoCompatibleTargetError(
            f"{reference} has nothing for this host ({host.gpu_type}){reasons}",
            hint="build it on a machine like this one; the cache's value stands before the ≠, this host's after it",
        )
    return best, trace


def _candidate(descriptor: Descriptor) -> Candidate | None:
    target = target_from_annotations(descriptor.annotations)
    if target is None or descriptor.annotations.get(ANNOTATION_FORMAT) != str(FORMAT):
        return None
    return Candidate(descriptor, target)


def _require_consistent(document: Document, manifest: Manifest, candidate: Candidate) -> None:
    """Hold the manifest to what the index said of it, by which it was chosen."""
    if target_from_annotations(manifest.annotations) != candidate.target:
        raise IntegrityError(
            f"manifest {document.digest} is for another target than the index says", hint="run glowplug index"
        )
    if manifest.config.media_type != CONFIG_TYPE:
        raise IntegrityError(f"manifest {document.digest} has no image config")
