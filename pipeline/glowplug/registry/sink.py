"""What can be written to a repository, wherever it is."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

from glowplug.core.oci import Descriptor, Document
from glowplug.core.reference import LayoutRepository, Repository
from glowplug.errors import ToolMissingError
from glowplug.registry.options import DEFAULT, Options
from glowplug.registry.source import Source


class Sink(Source, Protocol):
    """A repository that can be written, and read."""

    def check_push(self) -> None:
        """Find out whether a push would be accepted, so that no GPU time is spent on one that is not.

        Raises:
            DeniedError: these credentials, or this user, may not write.
            NotFoundError: the repository has to be created first (Amazon ECR).
            UnavailableError: the repository cannot be reached or written.
        """
        ...

    def has_blob(self, digest: str) -> bool:
        """Return whether the repository holds the blob."""
        ...

    def put_blob(self, descriptor: Descriptor, path: Path) -> None:
        """Store the file ``path`` as a blob, streaming it; nothing is sent when the blob is there.

        Raises:
            IntegrityError: the file is not what the descriptor says.
            DeniedError, UnavailableError: the blob cannot be stored.
        """
        ...

    def put_document(self, document: Document, tag: str | None) -> None:
        """Store a manifest or index byte for byte; without a ``tag`` only its digest names it.

        Raises:
            IntegrityError: the repository stored something else.
            DeniedError, UnavailableError: the document cannot be stored.
        """
        ...


@contextmanager
def open_sink(repository: Repository, options: Options = DEFAULT) -> Iterator[Sink]:
    """Open a repository for writing on the build side, which reaches registries through oras-py.

    Raises:
        ToolMissingError: the repository is in a registry and oras is not installed.
    """
    if isinstance(repository, LayoutRepository):
        yield _layout(repository)
        return
    if importlib.util.find_spec("oras") is None:
        raise ToolMissingError(f"pushing to {repository} needs oras", hint="pip install 'glowplug[build]'")
    from glowplug.registry.publish import RegistrySink  # noqa: PLC0415

    with closing(RegistrySink(repository, options)) as sink:
        yield sink


@contextmanager
def open_sink_without_extras(repository: Repository, options: Options = DEFAULT) -> Iterator[Sink]:
    """Open a repository for writing with the base install, which is all that a model's container has.

    There are two because oras-py, which the build side pushes through, is not in the base install and should not be:
    importing it takes 200 to 350 ms of CPU, twice as much as urllib3 alone, beside a model that is serving. What a
    push sends and what the replies mean is the same for both (``upload.py``).
    """
    if isinstance(repository, LayoutRepository):
        yield _layout(repository)
        return
    from glowplug.registry.push import RegistryWriter  # noqa: PLC0415

    with closing(RegistryWriter(repository, options)) as sink:
        yield sink


def _layout(repository: LayoutRepository) -> Sink:
    from glowplug.registry.layout import Layout  # noqa: PLC0415

    return Layout(repository)
