"""A repository in a registry, written over the pull client's own connections, with the base install alone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

from glowplug.core.integrity import verified
from glowplug.core.oci import Descriptor, Document
from glowplug.core.reference import RegistryRepository
from glowplug.errors import GlowplugError
from glowplug.registry.client import RegistrySource
from glowplug.registry.options import Options
from glowplug.registry.retry import retried
from glowplug.registry.source import ignore
from glowplug.registry.transport import CHUNK_BYTES
from glowplug.registry.upload import OCTETS, check_stored, is_held, stored, upload_location, with_digest

T = TypeVar("T")


class RegistryWriter:
    """A repository that is written, and read by the pull client with the same tokens."""

    def __init__(self, repository: RegistryRepository, options: Options) -> None:
        self._repository = repository
        self._source = RegistrySource(repository, options, actions="pull,push")

    def close(self) -> None:
        """Close all connections."""
        self._source.close()

    def resolve(self, selector: str) -> Document:
        """See ``Source.resolve``."""
        return self._source.resolve(selector)

    def copy_blob(
        self, descriptor: Descriptor, file: IO[bytes], on_bytes: Callable[[int], None] = ignore
    ) -> None:
        """See ``Source.copy_blob``."""
        self._source.copy_blob(descriptor, file, on_bytes)

    def tags(self) -> list[str]:
        """See ``Source.tags``."""
        return self._source.tags()

    def referrers(self, subject: str, artifact_type: str) -> tuple[Descriptor, ...] | None:
        """See ``Source.referrers``."""
        return self._source.referrers(subject, artifact_type)

    def check_push(self) -> None:
        """See ``Sink.check_push``: starts an upload, which needs the right to push, and gives it up."""
        location = self._retried(lambda: self._start_upload(f"push to {self._repository}"))
        with contextlib.suppress(GlowplugError):  # not every registry can cancel; each forgets in time
            self._source.request("DELETE", location, {})

    def has_blob(self, digest: str) -> bool:
        """See ``Sink.has_blob``.

        Raises:
            DeniedError, UnavailableError: the registry does not say.
        """
        url, action = f"{self._source.base_url}/blobs/{digest}", f"look for {digest} in {self._repository}"
        return self._retried(lambda: is_held(self._source.request("HEAD", url, {}), action))

    def put_blob(self, descriptor: Descriptor, path: Path) -> None:
        """See ``Sink.put_blob``: one PUT, streamed from the file; a broken upload starts over."""
        if self.has_blob(descriptor.digest):
            return
        action = f"push {descriptor.digest} to {self._repository}"
        content = _FileContent(path, descriptor)
        headers = {**OCTETS, "Content-Length": str(descriptor.size_bytes)}

        def once() -> None:
            url = with_digest(self._start_upload(action), descriptor.digest)
            check_stored(self._source.request("PUT", url, headers, content), descriptor.digest, action)

        stored(lambda: self._retried(once))

    def put_document(self, document: Document, tag: str | None) -> None:
        """See ``Sink.put_document``."""
        name = tag or document.digest
        url, headers = f"{self._source.base_url}/manifests/{name}", {"Content-Type": document.media_type}
        action = f"push {self._repository}{':' if tag else '@'}{name}"

        def once() -> None:
            check_stored(self._source.request("PUT", url, headers, document.raw), document.digest, action)

        stored(lambda: self._retried(once))

    def _start_upload(self, action: str) -> str:
        url = f"{self._source.base_url}/blobs/uploads/"
        return upload_location(self._source.request("POST", url, {}), url, action)

    def _retried(self, operation: Callable[[], T]) -> T:
        return retried(operation, self._source.options.retries, self._source.deadline)


@dataclass(frozen=True)
class _FileContent:
    """A file as the body of a request, read anew each time that it is sent, and checked on the way."""

    path: Path
    descriptor: Descriptor

    def __iter__(self) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as file:
                yield from verified(iter(lambda: file.read(CHUNK_BYTES), b""), self.descriptor)
        except OSError as error:
            raise GlowplugError(f"cannot read {self.path}: {error.strerror}") from error
