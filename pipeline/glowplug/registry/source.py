"""What can be read from a repository, wherever it is."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import IO, Protocol

from glowplug.core.oci import Descriptor, Document
from glowplug.core.reference import LayoutRepository, Repository
from glowplug.registry.options import DEFAULT, Options


def ignore(_size_bytes: int) -> None:
    """Take no notice of how many bytes have come."""


class Source(Protocol):
    """A repository that can be read, from several threads at once."""

    def resolve(self, selector: str) -> Document:
        """Return the manifest or index that a tag or a digest names; its bytes match the digest.

        Raises:
            NotFoundError: nothing has this name.
            DeniedError, UnavailableError: the repository cannot be read.
            IntegrityError: the bytes do not match the digest.
        """
        ...

    def copy_blob(
        self, descriptor: Descriptor, file: IO[bytes], on_bytes: Callable[[int], None] = ignore
    ) -> None:
        """Make ``file`` hold a blob: its bytes match the digest. This is where they are checked, and nobody has to again.

        Args:
            descriptor: which blob.
            file: what it holds is overwritten, also when a part has to be read from another place again.
            on_bytes: told now and then how many bytes there are; may raise, to stop.

        Raises:
            NotFoundError: the repository does not hold the blob.
            DeniedError, UnavailableError: it cannot be read, or the connection broke too often.
            IntegrityError: longer, shorter, or other bytes than described.
            OSError: the file cannot be written.
        """
        ...

    def tags(self) -> list[str]:
        """Return every tag, sorted; empty when nothing was ever pushed.

        Raises:
            DeniedError, UnavailableError: the repository cannot be read.
        """
        ...

    def referrers(self, subject: str, artifact_type: str) -> tuple[Descriptor, ...] | None:
        """Return what the repository itself lists as referring to a digest; ``None`` when it keeps no such list.

        It may list other types too. ``referrers.find_referrers`` also looks where clients keep the list themselves.

        Raises:
            DeniedError, UnavailableError, IntegrityError: the repository cannot be read, or answers nonsense.
        """
        ...


def read_blob(source: Source, descriptor: Descriptor) -> bytes:
    """Return a small blob.

    Raises:
        GlowplugError: see ``Source.copy_blob``.
    """
    file = BytesIO()
    source.copy_blob(descriptor, file)
    return file.getvalue()


def _say_nothing(*_: str) -> None: ...


@contextmanager
def open_source(
    repository: Repository,
    options: Options = DEFAULT,
    note: Callable[[str], None] = _say_nothing,
    supplied: Callable[[str, str], None] = _say_nothing,
) -> Iterator[Source]:
    """Open a repository for reading; the first request is what imports and touches the network.

    Args:
        repository: which one.
        options: how patient and how strict to be.
        note: hears of each mirror that is left out, in one sentence.
        supplied: told the digest of each blob that a mirror has supplied, and the mirror's host.

    Raises:
        UsageError: ``GLOWPLUG_MIRRORS`` cannot be read.
    """
    if isinstance(repository, LayoutRepository):
        from glowplug.registry.layout import Layout  # noqa: PLC0415

        yield Layout(repository)
        return
    from glowplug.registry.client import RegistrySource  # noqa: PLC0415
    from glowplug.registry.mirrors import open_mirrored  # noqa: PLC0415

    with (
        contextlib.closing(RegistrySource(repository, options)) as origin,
        open_mirrored(origin, os.environ, note, supplied) as source,
    ):
        yield source
