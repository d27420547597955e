"""Describe: read what a reference holds from manifests and configs alone; no layer is transferred."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from glowplug.boot.fetch import read_config
from glowplug.boot.resolve import Resolution, read_candidates
from glowplug.core.oci import Manifest, parse_manifest
from glowplug.core.record import Record
from glowplug.core.reference import Reference
from glowplug.registry.source import Source


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


def describe(source: Source, reference: Reference) -> tuple[Described, ...]:
    """Read every artifact that a reference offers, in the order of the index.

    Raises:
        NotFoundError: the reference names no glowplug artifact.
        IntegrityError: a document is not what it should be.
    """
    described = []
    for candidate in read_candidates(source, reference):
        document = source.resolve(candidate.descriptor.digest)
        manifest = parse_manifest(document)
        record, _ = read_config(source, Resolution(document.digest, manifest, candidate.target, ()))
        described.append(Described(document.digest, manifest, record))
    return tuple(described)
