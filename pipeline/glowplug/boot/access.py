"""How a boot reaches a repository: through the node's store where there is one, and without the network if it must."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import IO, NamedTuple

from glowplug.boot.receipt import Receipt
from glowplug.boot.store import Store
from glowplug.core.oci import INDEX_TYPE, MANIFEST_TYPE, Descriptor, Document, decode
from glowplug.core.reference import LayoutRepository, Reference, RegistryRepository, Repository, is_digest
from glowplug.errors import UnavailableError
from glowplug.registry.options import DEFAULT, Options
from glowplug.registry.source import Source, ignore, open_source

_CHUNK_BYTES = 1024 * 1024


class Access(NamedTuple):
    """What a caller may decide about reading a repository.

    Attributes:
        registry: timeouts and transport.
        store: the node's store, ``None`` without one.
        offline: never use the network: what the store holds must do.
    """

    registry: Options = DEFAULT
    store: Store | None = None
    offline: bool = False


@contextmanager
def open_repository(repository: Repository, access: Access, note: Callable[[str], None]) -> Iterator[Source]:
    """Open a repository for reading; ``note`` hears of what came from the store although it may be out of date.

    Raises:
        UnavailableError: offline, and there is no store to do without the network.
        UsageError: the store is no folder.
    """
    if isinstance(repository, LayoutRepository) or access.store is None:
        if access.offline and not isinstance(repository, LayoutRepository):
            raise UnavailableError(
                f"{repository} cannot be read offline without a store",
                hint="set GLOWPLUG_STORE to the node's store",
            )
        with open_source(repository, access.registry, note) as source:
            yield source
        return
    writable = access.store.prepare()
    with ExitStack() as opened:

        def remote(supplied: Callable[[str, str], None]) -> Source:
            return opened.enter_context(open_source(repository, access.registry, note, supplied))

        yield StoredSource(repository, access, remote, note=note, writable=writable)
    if writable and not access.offline:  # what goes could not be fetched again
        access.store.collect()


class StoredSource:
    """A ``Source`` that asks the store before the registry, and keeps there what the registry gave.

    Until it has something to ask for, no registry is opened: a start from a warm store does not wait for the imports.
    """

    def __init__(
        self,
        repository: RegistryRepository,
        access: Access,
        remote: Callable[[Callable[[str, str], None]], Source],
        *,
        note: Callable[[str], None],
        writable: bool,
    ) -> None:
        assert access.store is not None  # noqa: S101 - open_repository's own condition, for the type checker
        self._repository = repository
        self._store = access.store
        self._offline = access.offline
        self._open_remote = remote
        self._opened_remote: Source | None = None
        self._opening = Lock()
        self._suppliers: dict[str, str] = {}
        # One line each, so that threads need no lock.
        self._copied: list[tuple[str, int]] = []
        self._note = note
        self._writable = writable

    def resolve(self, selector: str) -> Document:
        """See ``Source.resolve``. A tag is asked for each time; where the registry cannot answer, what it said last counts."""
        if is_digest(selector):
            return self._document(selector) or self._keep_document(self._ask(selector))
        reference = f"{self._repository}:{selector}"
        try:
            document = self._keep_document(self._ask(selector))
        except UnavailableError as error:
            known = self._store.recall(reference)
            document_known = self._document(known) if known else None
            if document_known is None:
                raise
            if not self._offline:
                self._note(f"{error}; going on with {reference} as this node saw it last")
            return document_known
        if self._writable:
            self._store.remember(reference, document.digest)
        return document

    def copy_blob(
        self, descriptor: Descriptor, file: IO[bytes], on_bytes: Callable[[int], None] = ignore
    ) -> None:
        """See ``Source.copy_blob``."""
        if self._copy_stored(descriptor, file, on_bytes):
            return
        self._require_online(descriptor.digest)
        if not self._writable:
            self._download(descriptor, file, on_bytes)
            return
        with self._store.single_flight(descriptor.digest):
            if not self._copy_stored(descriptor, file, on_bytes):
                self._download(descriptor, file, on_bytes)
                self._keep_blob(descriptor.digest, file)

    def tags(self) -> list[str]:
        """See ``Source.tags``."""
        self._require_online("its tags")
        return self._remote.tags()

    def referrers(self, subject: str, artifact_type: str) -> tuple[Descriptor, ...] | None:
        """See ``Source.referrers``. Offline there is only what a tag once meant."""
        return None if self._offline else self._remote.referrers(subject, artifact_type)

    def file_receipt(self, reference: Reference, digest: str, target: str) -> None:
        """Write down that an artifact was put in place, and where its blobs came from."""
        if self._writable:
            bytes_from: dict[str, int] = {}
            for supplier, size_bytes in self._copied:
                bytes_from[supplier] = bytes_from.get(supplier, 0) + size_bytes
            self._store.file_receipt(Receipt(str(reference), digest, target, bytes_from, time.time()))

    def _copy_stored(self, descriptor: Descriptor, file: IO[bytes], on_bytes: Callable[[int], None]) -> bool:
        is_here = self._store.copy_blob(descriptor, file, on_bytes)
        if is_here:
            self._copied.append(("store", descriptor.size_bytes))
        return is_here

    def _download(self, descriptor: Descriptor, file: IO[bytes], on_bytes: Callable[[int], None]) -> None:
        self._remote.copy_blob(descriptor, file, on_bytes)
        supplier = self._suppliers.get(descriptor.digest, self._repository.host)
        self._copied.append((supplier, descriptor.size_bytes))

    @property
    def _remote(self) -> Source:
        with self._opening:
            self._opened_remote = self._opened_remote or self._open_remote(self._suppliers.__setitem__)
            return self._opened_remote

    def _keep_blob(self, digest: str, file: IO[bytes]) -> None:
        file.seek(0)
        self._keep(digest, iter(lambda: file.read(_CHUNK_BYTES), b""))

    def _ask(self, selector: str) -> Document:
        self._require_online(selector)
        return self._remote.resolve(selector)

    def _keep_document(self, document: Document) -> Document:
        if self._writable and self._store.read_document(document.digest) is None:
            self._keep(document.digest, [document.raw])
        return document

    def _keep(self, digest: str, chunks: Iterable[bytes]) -> None:
        """Put a blob into the store; without room for it there, the next container has to ask again."""
        try:
            self._store.add(digest, chunks)
        except OSError as error:
            self._note(f"the store {self._store.root} cannot be written: {error.strerror}")

    def _document(self, digest: str) -> Document | None:
        raw = self._store.read_document(digest)
        media_type = _media_type(raw) if raw is not None else None
        return Document(media_type, raw) if raw is not None and media_type else None

    def _require_online(self, what: str) -> None:
        if self._offline:
            raise UnavailableError(
                f"the store {self._store.root} does not hold {what} of {self._repository}, and the network may not be used",
                hint="fetch it once without --offline",
            )


def _media_type(raw: bytes) -> str | None:
    """Return what a stored document says that it is: a registry says it in a header, which is not stored."""
    try:
        body = decode(raw)
    except ValueError:
        return None
    said = body.get("mediaType") if isinstance(body, dict) else None
    return said if said in (MANIFEST_TYPE, INDEX_TYPE) else None
