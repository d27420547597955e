"""The zipapp as an image, for ``COPY --from=IMAGE /glowplug.pyz /usr/local/bin/glowplug``."""

from __future__ import annotations

import tempfile
from pathlib import Path

from glowplug import __version__
from glowplug.archive import tar
from glowplug.archive.layer_writer import libdeflate_gzip
from glowplug.archive.tar import Member, MemberType
from glowplug.core.oci import (
    CONFIG_TYPE,
    INDEX_TYPE,
    LAYER_TYPE,
    Descriptor,
    Document,
    Manifest,
    Platform,
    digest_of,
    encode,
)
from glowplug.core.reference import LayoutRepository
from glowplug.registry.layout import Layout

ZIPAPP_NAME = "glowplug.pyz"
# The file is the same for all; a builder takes the image of its own platform.
_ARCHITECTURES = ("amd64", "arm64")
_ANNOTATIONS = {
    "org.opencontainers.image.title": "glowplug",
    "org.opencontainers.image.version": __version__,
    "org.opencontainers.image.licenses": "Apache-2.0 AND BSD-3-Clause AND MIT",  # ours, click's, urllib3's
}


def write_image(zipapp: Path, repository: LayoutRepository, tag: str) -> str:
    """Write the image of one file, for every architecture, into a layout folder, and return its digest.

    Raises:
        GlowplugError: the folder cannot be written to.
        ToolMissingError: the extra ``build`` is not installed.
    """
    layout = Layout(repository)
    layout.check_push()
    archive = _archive(zipapp.read_bytes())
    layer = _put(layout, LAYER_TYPE, libdeflate_gzip(archive))
    entries = []
    for architecture in _ARCHITECTURES:
        rootfs = {"type": "layers", "diff_ids": [digest_of(archive)]}
        config = {"os": "linux", "architecture": architecture, "config": {}, "rootfs": rootfs}
        manifest = Manifest(_put(layout, CONFIG_TYPE, encode(config)), (layer,), _ANNOTATIONS).document()
        layout.put_document(manifest, None)
        entries.append(manifest.descriptor(platform=Platform("linux", architecture)).to_json())
    body = {
        "schemaVersion": 2,
        "mediaType": INDEX_TYPE,
        "manifests": entries,
        "annotations": _ANNOTATIONS,
    }
    index = Document(INDEX_TYPE, encode(body))
    layout.put_document(index, tag)
    return index.digest


def _archive(content: bytes) -> bytes:
    member = Member(ZIPAPP_NAME, MemberType.FILE, len(content), executable=True)
    return tar.encode_member(member) + content + bytes(tar.padding(len(content))) + tar.END


def _put(layout: Layout, media_type: str, data: bytes) -> Descriptor:
    descriptor = Descriptor(media_type, digest_of(data), len(data))
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        layout.put_blob(descriptor, Path(file.name))
    return descriptor
