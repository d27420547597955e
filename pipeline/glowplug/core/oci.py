"""OCI image-spec 1.1 documents as values: descriptor, manifest, image index.

A document that came from elsewhere keeps the exact bytes it was read from, because its digest is over those
bytes; one that we make is encoded canonically (sorted keys, no white space), so that equal content has one digest.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from glowplug.core.reference import is_digest
from glowplug.errors import IntegrityError

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"
CACHE_INDEX_TYPE = "application/vnd.glowplug.index.v1+json"

# Docker's own formats, which images of models may still be in; the documents hold the same properties.
DOCKER_MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_INDEX_TYPE = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_CONFIG_TYPE = "application/vnd.docker.container.image.v1+json"

MANIFEST_TYPES = (MANIFEST_TYPE, DOCKER_MANIFEST_TYPE)
INDEX_TYPES = (INDEX_TYPE, DOCKER_INDEX_TYPE)
CONFIG_TYPES = (CONFIG_TYPE, DOCKER_CONFIG_TYPE)

# A manifest is a handful of descriptors; registries refuse more than 4 MiB (distribution-spec, "Pushing Manifests").
MAX_DOCUMENT_BYTES = 4 * 1024 * 1024

_SURROGATE = re.compile("[\ud800-\udfff]")


def digest_of(data: bytes) -> str:
    """Return the sha256 digest of ``data`` as OCI spells it."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def encode(value: Any) -> bytes:
    """Encode a JSON value in the one form that we ever hash."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def decode(raw: bytes) -> Any:
    """Read JSON that came from elsewhere.

    Raises:
        ValueError: it is none, no UTF-8, or nested so deeply that reading it would take all of the stack.
    """
    try:
        return json.loads(raw)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


class Platform(NamedTuple):
    """Which machines an index entry is for; ``variant`` carries the GPU's architecture (``sm_90``)."""

    os: str
    architecture: str
    variant: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the image-spec object."""
        base = {"os": self.os, "architecture": self.architecture}
        return base | ({"variant": self.variant} if self.variant else {})


class Descriptor(NamedTuple):
    """A typed pointer to content: media type, digest, size in bytes (image-spec, "Content Descriptors").

    ``artifact_type`` is what an artifact's own manifest says that it is; empty for an image.
    """

    media_type: str
    digest: str
    size_bytes: int
    annotations: Mapping[str, str] = MappingProxyType({})
    platform: Platform | None = None
    artifact_type: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the image-spec object."""
        out: dict[str, Any] = {"mediaType": self.media_type, "digest": self.digest, "size": self.size_bytes}
        if self.annotations:
            out["annotations"] = dict(self.annotations)
        if self.platform:
            out["platform"] = self.platform.to_json()
        if self.artifact_type:
            out["artifactType"] = self.artifact_type
        return out


class Document(NamedTuple):
    """A manifest or an index as bytes: what a registry stores and what a digest is over."""

    media_type: str
    raw: bytes

    @property
    def digest(self) -> str:
        """The digest of the exact bytes."""
        return digest_of(self.raw)

    def descriptor(
        self, annotations: Mapping[str, str] | None = None, platform: Platform | None = None
    ) -> Descriptor:
        """Point to this document."""
        return Descriptor(self.media_type, self.digest, len(self.raw), annotations or {}, platform)


class Manifest(NamedTuple):
    """An image manifest: one config, its layers, and what we say about them."""

    config: Descriptor
    layers: tuple[Descriptor, ...]
    annotations: Mapping[str, str]

    @property
    def size_bytes(self) -> int:
        """How much a full pull transfers, without the manifest itself."""
        return self.config.size_bytes + sum(layer.size_bytes for layer in self.layers)

    def document(self) -> Document:
        """Encode canonically."""
        body = {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": self.config.to_json(),
            "layers": [layer.to_json() for layer in self.layers],
            "annotations": dict(self.annotations),
        }
        return Document(MANIFEST_TYPE, encode(body))


class Index(NamedTuple):
    """An image index: one entry per target."""

    manifests: tuple[Descriptor, ...]
    annotations: Mapping[str, str]

    def document(self) -> Document:
        """Encode canonically."""
        body = {
            "schemaVersion": 2,
            "mediaType": INDEX_TYPE,
            "artifactType": CACHE_INDEX_TYPE,
            "manifests": [entry.to_json() for entry in self.manifests],
            "annotations": dict(self.annotations),
        }
        return Document(INDEX_TYPE, encode(body))


def parse_manifest(document: Document) -> Manifest:
    """Read an image manifest, in OCI's or in Docker's format.

    Raises:
        IntegrityError: the bytes are no image manifest.
    """
    body = _load(document, MANIFEST_TYPES)
    layers = body.get("layers")
    if not isinstance(layers, list):
        raise IntegrityError(f"manifest {document.digest} lists no layers")
    return Manifest(
        parse_descriptor(body.get("config"), document.digest),
        tuple(parse_descriptor(layer, document.digest) for layer in layers),
        _strings(body.get("annotations")),
    )


def parse_index(document: Document) -> Index:
    """Read an image index, or Docker's manifest list.

    Raises:
        IntegrityError: the bytes are no image index.
    """
    body = _load(document, INDEX_TYPES)
    entries = body.get("manifests")
    if not isinstance(entries, list):
        raise IntegrityError(f"index {document.digest} lists no manifests")
    return Index(
        tuple(parse_descriptor(entry, document.digest) for entry in entries),
        _strings(body.get("annotations")),
    )


def parse_descriptor(value: Any, where: str) -> Descriptor:
    """Read one descriptor of the document named ``where``.

    Raises:
        IntegrityError: a required property is missing or of the wrong type.
    """
    if not isinstance(value, dict):
        raise IntegrityError(f"{where} holds a descriptor that is no object")
    media_type, digest, size = value.get("mediaType"), value.get("digest"), value.get("size")
    if not isinstance(media_type, str) or not isinstance(digest, str) or not is_digest(digest):
        raise IntegrityError(f"{where} holds a descriptor without a media type or a sha256 digest")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise IntegrityError(f"{where} holds a descriptor without a size ({digest})")
    artifact_type = value.get("artifactType")
    return Descriptor(
        media_type,
        digest,
        size,
        _strings(value.get("annotations")),
        _platform(value),
        artifact_type if isinstance(artifact_type, str) else "",
    )


def _platform(value: Mapping[str, Any]) -> Platform | None:
    platform = value.get("platform")
    if not isinstance(platform, dict):
        return None
    return Platform(
        str(platform.get("os", "")), str(platform.get("architecture", "")), str(platform.get("variant", ""))
    )


def _load(document: Document, expected_types: tuple[str, ...]) -> dict[str, Any]:
    if len(document.raw) > MAX_DOCUMENT_BYTES:
        raise IntegrityError(f"{document.digest} is larger than any manifest may be (4 MiB)")
    try:
        body = decode(document.raw)
    except ValueError as error:
        raise IntegrityError(f"{document.digest} is not JSON") from error
    if not isinstance(body, dict) or body.get("schemaVersion") != 2:
        raise IntegrityError(f"{document.digest} is not an OCI document (schemaVersion 2)")
    expected = document.media_type if document.media_type in expected_types else expected_types[0]
    if body.get("mediaType", expected) != expected:
        raise IntegrityError(f"{document.digest} says it is {body['mediaType']}, not {expected}")
    return body


def _strings(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    # Half a surrogate pair is JSON, but no text: nothing that holds one can be encoded again.
    return {k: v for k, v in value.items() if isinstance(v, str) and not _SURROGATE.search(k + v)}
