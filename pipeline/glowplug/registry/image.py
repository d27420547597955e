"""What a registry or a layout folder says of a model's image, read without a container engine: no layer is read."""

from __future__ import annotations

from typing import Any

from glowplug.core.image import ModelImage, run_settings
from glowplug.core.oci import (
    CONFIG_TYPES,
    INDEX_TYPES,
    MANIFEST_TYPES,
    Descriptor,
    Document,
    decode,
    parse_index,
    parse_manifest,
)
from glowplug.core.reference import Reference
from glowplug.errors import IntegrityError, NotFoundError
from glowplug.registry.source import Source, read_blob

# Labels and history; a Cog image's schema and package list make some hundred kilobytes.
_MAX_CONFIG_BYTES = 4 * 1024 * 1024


def read_image(source: Source, reference: Reference, architecture: str) -> ModelImage:
    """Read an image's facts: two or three small documents.

    Args:
        source: the repository of the reference.
        reference: the image, or an index with one for each platform.
        architecture: ``amd64``, ``arm64``: which one of an index.

    Raises:
        NotFoundError: there is none, none for this architecture, or it is something else than an image.
        IntegrityError: a document is damaged.
        DeniedError, UnavailableError: the repository cannot be read.
    """
    document = source.resolve(reference.selector)
    chosen = image_manifest(document, architecture, str(reference))
    own = document if chosen.digest == document.digest else source.resolve(chosen.digest)
    if own.media_type not in MANIFEST_TYPES:
        raise NotFoundError(f"{reference} is an index of indexes", hint="name the image in it by its digest")
    manifest = parse_manifest(own)
    if manifest.config.media_type not in CONFIG_TYPES:
        raise NotFoundError(
            f"{reference} is no container image, but {manifest.config.media_type!a}",
            hint="name the image that the model's server runs in",
        )
    config = _read_config(source, manifest.config)
    return ModelImage(
        reference=str(reference),
        id=manifest.config.digest,
        digest=f"{reference.repository}@{document.digest}",
        architecture=str(config.get("architecture", "")),
        size_bytes=sum(layer.size_bytes for layer in manifest.layers),
        **run_settings(config.get("config")),
    )


def image_manifest(document: Document, architecture: str, name: str) -> Descriptor:
    """Point to the manifest of an architecture's image: the document itself, or the entry of an index.

    Args:
        document: what the image's reference names.
        architecture: ``amd64``, ``arm64``.
        name: the image, for messages.

    Raises:
        NotFoundError: an index without an entry for it, or no image at all.
        IntegrityError: it is damaged.
    """
    if document.media_type in MANIFEST_TYPES:
        return document.descriptor()
    if document.media_type not in INDEX_TYPES:
        raise NotFoundError(f"{name} is no container image, but {document.media_type!a}")
    entries = [entry for entry in parse_index(document).manifests if entry.platform is not None]
    found = [
        entry
        for entry in entries
        if entry.platform and (entry.platform.os, entry.platform.architecture) == ("linux", architecture)
    ]
    if not found:
        # What buildx adds about how an image was made calls its platform unknown/unknown.
        others = sorted(
            {f"{e.platform.os}/{e.platform.architecture}" for e in entries if e.platform}
            - {"unknown/unknown"}
        )
        raise NotFoundError(
            f"{name} holds no image for linux/{architecture}",
            hint=f"it has {', '.join(others)}" if others else "it lists no image for any platform",
        )
    # Of several, the one that asks the least of the machine: linux/amd64 before linux/amd64/v3.
    return min(found, key=lambda entry: len(entry.platform.variant) if entry.platform else 0)


def _read_config(source: Source, descriptor: Descriptor) -> dict[str, Any]:
    if descriptor.size_bytes > _MAX_CONFIG_BYTES:
        raise IntegrityError(f"config {descriptor.digest} is larger than any config may be (4 MiB)")
    try:
        config = decode(read_blob(source, descriptor))
    except ValueError as error:
        raise IntegrityError(f"config {descriptor.digest} is not JSON") from error
    if not isinstance(config, dict):
        raise IntegrityError(f"config {descriptor.digest} is no image config")
    return config
