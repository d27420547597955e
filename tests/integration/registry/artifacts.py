"""Small artifacts to move around."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from glowplug.core.oci import (
    LAYER_TYPE,
    Descriptor,
    Document,
    Index,
    Platform,
)
from glowplug.registry.sink import Sink


@dataclass(frozen=True)
class Artifact:
    """A manifest and the blobs that it points to."""

    document: Document
    blobs: tuple[tuple[Descriptor, Path], ...]

    @property
    def layer(self) -> Descriptor:
        return next(d for d, _ in self.blobs if d.media_type == LAYER_TYPE)

    def push(self, sink: Sink, *tags: str) -> None:
        for descriptor, path in self.blobs:
            sink.put_blob(descriptor, path)
        for tag in tags:
            sink.put_document(self.document, tag)


MakeArtifact = Callable[..., Artifact]
Connect = Callable[..., AbstractContextManager[Sink]]


def index_of(*documents: Document) -> Document:
    """One entry per document, told apart by the variant."""
    entries = tuple(
        document.descriptor({}, Platform("linux", "amd64", f"sm_{80 + number}"))
        for number, document in enumerate(documents)
    )
    return Index(entries, {}).document()
