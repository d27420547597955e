"""Images of models, small ones, in whatever form they are found in registries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from glowplug.core.oci import (
    CONFIG_TYPE,
    DOCKER_CONFIG_TYPE,
    DOCKER_INDEX_TYPE,
    DOCKER_MANIFEST_TYPE,
    INDEX_TYPE,
    LAYER_TYPE,
    MANIFEST_TYPE,
    Descriptor,
    Document,
    digest_of,
    encode,
)
from glowplug.registry.sink import Sink

COG_CONFIG: dict[str, Any] = {
    "Entrypoint": ["/sbin/tini", "--"],
    "Cmd": ["python", "-m", "cog.server.http"],
    "WorkingDir": "/src",
    "Env": ["PATH=/usr/local/bin:/usr/bin", "NVIDIA_VISIBLE_DEVICES=all"],
    "Labels": {"run.cog.version": "0.16.0"},
}


def push_image(
    sink: Sink, folder: Path, tag: str | None, *, architecture: str = "amd64", docker: bool = False
) -> Document:
    """Push an image of one platform."""
    config = encode(
        {"architecture": architecture, "os": "linux", "config": COG_CONFIG, "rootfs": {"diff_ids": []}}
    )
    layer = b"layer of " + architecture.encode()
    media_type = DOCKER_MANIFEST_TYPE if docker else MANIFEST_TYPE
    descriptors = []
    for blob_type, content in (
        (DOCKER_CONFIG_TYPE if docker else CONFIG_TYPE, config),
        (
            "application/vnd.docker.image.rootfs.diff.tar.gzip" if docker else LAYER_TYPE,
            layer,
        ),
    ):
        descriptor = Descriptor(blob_type, digest_of(content), len(content))
        path = folder / "blob"
        path.write_bytes(content)
        sink.put_blob(descriptor, path)
        descriptors.append(descriptor.to_json())
    body = {"schemaVersion": 2, "mediaType": media_type, "config": descriptors[0], "layers": descriptors[1:]}
    document = Document(media_type, encode(body))
    sink.put_document(document, tag)
    return document


def push_index(
    sink: Sink, tag: str, images: dict[str, Document], *, docker: bool = False, more: tuple[Any, ...] = ()
) -> Document:
    """Push an index of images by architecture."""
    entries = [
        {**document.descriptor().to_json(), "platform": {"os": "linux", "architecture": architecture}}
        for architecture, document in images.items()
    ]
    media_type = DOCKER_INDEX_TYPE if docker else INDEX_TYPE
    body = {"schemaVersion": 2, "mediaType": media_type, "manifests": [*entries, *more]}
    document = Document(media_type, encode(body))
    sink.put_document(document, tag)
    return document
