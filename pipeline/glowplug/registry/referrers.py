"""What refers to a manifest: the registry's own list, or the one that clients keep (distribution-spec 1.1)."""

from __future__ import annotations

from typing import NamedTuple

from glowplug.core.link import referrers_tag
from glowplug.core.oci import INDEX_TYPE, Descriptor, parse_index
from glowplug.errors import NotFoundError
from glowplug.registry.source import Source


class Referrers(NamedTuple):
    """What refers to a manifest; ``by_tag`` where clients keep the list, because the repository keeps none."""

    entries: tuple[Descriptor, ...]
    by_tag: bool


def find_referrers(source: Source, subject: str, artifact_type: str) -> Referrers:
    """Return what refers to the manifest with the digest ``subject`` and is of the given type.

    Raises:
        DeniedError, UnavailableError: the repository cannot be read.
        IntegrityError: the list is damaged.
    """
    listed = source.referrers(subject, artifact_type)
    entries = _tagged(source, subject) if listed is None else listed
    # A registry may ignore the type that it was asked for.
    return Referrers(tuple(e for e in entries if e.artifact_type == artifact_type), by_tag=listed is None)


def _tagged(source: Source, subject: str) -> tuple[Descriptor, ...]:
    try:
        document = source.resolve(referrers_tag(subject))
    except NotFoundError:
        return ()
    return parse_index(document).manifests if document.media_type == INDEX_TYPE else ()
