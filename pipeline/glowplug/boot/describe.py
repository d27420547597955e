"""Describe: read what a reference holds from manifests and configs alone; no layer is transferred."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from glowplug.boot.fetch import read_config
from glowplug.boot.linked import by_tag_or_digest, find_links, options_for
from glowplug.boot.resolve import NotAnArtifactError, Resolution, read_candidates
from glowplug.core.artifact import ARCHITECTURES
from glowplug.core.oci import Manifest, parse_manifest
from glowplug.core.record import Record
from glowplug.core.reference import Reference
from glowplug.registry.options import Options
from glowplug.registry.source import Source, open_source


@dataclass(frozen=True)
class Described:
    """One artifact: its manifest's digest, the manifest, and its record."""

    digest: str
    manifest: Manifest
    record: Record

    def to_json(self) -> dict[str, Any]:
        """Return it for scripts."""
        return {
            "digest": self.digest,
            "gpu_type": self.record.target.gpu_type,
            "size_bytes": self.manifest.size_bytes,
            "layers": [layer.to_json() for layer in self.manifest.layers],
            "record": self.record.to_json(),
        }


def describe(reference: Reference, options: Options, note: Callable[[str], None]) -> tuple[Described, ...]:
    """Read every artifact that a reference offers, in the order of the index, or that a model's image is linked to.

    Raises:
        NotFoundError: the reference names neither.
        IntegrityError: a document is not what it should be.
        DeniedError, UnavailableError: a repository cannot be read.
    """
    with open_source(reference.repository, options, note) as source:
        try:
            return _describe(source, reference)
        except NotAnArtifactError as error:
            architectures = ARCHITECTURES.values()
            found = [find_links(source, reference, error.document, name) for name in architectures]
            caches = list(dict.fromkeys(link.cache for links in found for link in links))
            if not caches:
                raise
    described: list[Described] = []
    for cache in caches:
        note(f"{reference} is linked to {cache}")
        with open_source(cache.repository, options_for(cache, reference, options), note) as source:
            described += by_tag_or_digest(partial(_describe, source), cache)
    return tuple(described)


def _describe(source: Source, reference: Reference) -> tuple[Described, ...]:
    described = []
    for candidate in read_candidates(source, reference):
        document = source.resolve(candidate.descriptor.digest)
        manifest = parse_manifest(document)
        record, _ = read_config(source, Resolution(document.digest, manifest, candidate.target, ()))
        described.append(Described(document.digest, manifest, record))
    return tuple(described)
