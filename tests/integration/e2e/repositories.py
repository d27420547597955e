"""Copies artifacts between repositories, so that not every test has to build one; and looks into layout folders."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

from glowplug.core.oci import INDEX_TYPE, Descriptor, Document, Manifest, parse_index, parse_manifest
from glowplug.core.reference import LayoutRepository, Repository
from glowplug.registry.layout import Layout
from glowplug.registry.sink import Sink, open_sink


def layout(folder: Path) -> Layout:
    return Layout(LayoutRepository(str(folder)))


def copy(source: Path, destination: Repository) -> None:
    """Copy every tag of a layout folder, with all that it refers to."""
    repository = layout(source)
    with open_sink(destination) as sink:
        for tag in repository.tags():
            document = repository.resolve(tag)
            for child in _children(repository, document):
                _copy_blobs(source, sink, parse_manifest(child))
                sink.put_document(child, None)
            sink.put_document(document, tag)


def _children(repository: Layout, document: Document) -> Iterator[Document]:
    if document.media_type == INDEX_TYPE:
        for entry in parse_index(document).manifests:
            yield repository.resolve(entry.digest)
    else:
        yield document


def _copy_blobs(source: Path, sink: Sink, manifest: Manifest) -> None:
    for descriptor in (*manifest.layers, manifest.config):
        sink.put_blob(descriptor, blob(source, descriptor))


def blob(folder: Path, descriptor: Descriptor) -> Path:
    """Return the file of a layout folder that holds a blob."""
    return folder / "blobs" / "sha256" / descriptor.digest.removeprefix("sha256:")


def layer_files(folder: Path, digest: str) -> dict[str, bytes]:
    """Read all files of an artifact out of its layers, by path, with the standard library only."""
    files: dict[str, bytes] = {}
    for layer in parse_manifest(layout(folder).resolve(digest)).layers:
        with tarfile.open(fileobj=io.BytesIO(blob(folder, layer).read_bytes()), mode="r:gz") as archive:
            for member in archive:
                content = archive.extractfile(member)
                if content is not None:
                    files[member.name] = content.read()
    return files


def tree(folder: Path) -> dict[str, bytes]:
    """Read all files below a folder, by path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
