"""A repository in a registry, read over HTTP (OCI distribution-spec 1.1, "Pull" and "Content Discovery")."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, TYPE_CHECKING

from glowplug.core.integrity import fill
from glowplug.core.oci import INDEX_TYPES, MANIFEST_TYPES, Descriptor, Document
from glowplug.core.reference import RegistryRepository, is_digest, is_tag
from glowplug.errors import IntegrityError, NotFoundError, UnavailableError
from glowplug.registry.authorizer import Authorizer
from glowplug.registry.challenge import TokenRequest
from glowplug.registry.credentials import find_credential
from glowplug.registry.options import Deadline, Options
from glowplug.registry.replies import (
    MAX_REPLY_BYTES,
    OK,
    REDIRECTS,
    Reply,
    failure,
    json_object,
    next_page,
    not_a_registry,
)
from glowplug.registry.retry import TransientError, retried, wait
from glowplug.registry.source import ignore
from glowplug.registry.transport import Transport, discard, follow, origin_of

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

DOCUMENT_TYPES = (*MANIFEST_TYPES, *INDEX_TYPES)

_HUB_ALIASES = ("docker.io", "index.docker.io")
_HUB_API = "registry-1.docker.io"
_PAGE_TAGS = 1000
_MAX_PAGES = 1000
_MAX_REDIRECTS = 5
_READS = ("GET", "HEAD")


class RegistrySource:
    """A repository that is read; ``actions`` is what its tokens are asked for, ``environ`` where logins are."""

    def __init__(
        self,
        repository: RegistryRepository,
        options: Options,
        actions: str = "pull",
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.repository = repository
        self.options = options
        self.deadline = Deadline(options.timeout_s)
        self.transport = Transport(options, self.deadline)
        self.authorizer = Authorizer(
            repository,
            actions,
            lambda: find_credential(repository, environ, login_variables=options.login_variables),
            self._fetch_token,
        )
        scheme = "http" if options.plain_http or repository.is_loopback else "https"
        host = _HUB_API if repository.host in _HUB_ALIASES else repository.host
        self.origin = f"{scheme}://{host}"
        self.base_url = f"{self.origin}/v2/{repository.name}"

    def close(self) -> None:
        """Close all connections."""
        self.transport.close()

    def resolve(self, selector: str) -> Document:
        """See ``Source.resolve``."""
        action = f"read {self.repository}{'@' if is_digest(selector) else ':'}{selector}"
        reply = self._get(
            f"{self.base_url}/manifests/{selector}", {"Accept": ", ".join(DOCUMENT_TYPES)}, action
        )
        media_type = reply.headers.get("Content-Type", "").partition(";")[0].strip()
        if media_type not in DOCUMENT_TYPES:
            raise not_a_registry(reply, action)
        document = Document(media_type, reply.body)
        expected = selector if is_digest(selector) else reply.headers.get("Docker-Content-Digest", "")
        if is_digest(expected) and document.digest != expected:
            raise IntegrityError(f"cannot {action}: the bytes that came have the digest {document.digest}")
        return document

    def copy_blob(
        self, descriptor: Descriptor, file: IO[bytes], on_bytes: Callable[[int], None] = ignore
    ) -> None:
        """See ``Source.copy_blob``; a broken connection is resumed where it broke."""
        fill(file, self._chunks(descriptor), descriptor, on_bytes)

    def tags(self) -> list[str]:
        """See ``Source.tags``."""
        action = f"list the tags of {self.repository}"
        url = f"{self.base_url}/tags/list?n={_PAGE_TAGS}"
        found: set[str] = set()
        for _ in range(_MAX_PAGES):
            try:
                reply = self._get(url, {"Accept": "application/json"}, action)
            except NotFoundError:
                return []
            tags = json_object(reply, action).get("tags") or []
            if not isinstance(tags, list) or not all(isinstance(tag, str) and is_tag(tag) for tag in tags):
                raise not_a_registry(reply, action)
            found.update(tags)
            following = next_page(reply)
            if not following:
                return sorted(found)
            url = follow(url, following)
        raise UnavailableError(f"cannot {action}: the list has no end")

    def referrers(self, subject: str, artifact_type: str) -> tuple[Descriptor, ...] | None:
        """See ``Source.referrers``."""
        from glowplug.registry.referrers_api import ask_registry  # noqa: PLC0415 (few ask this)

        return ask_registry(self, subject, artifact_type)

    def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | Iterable[bytes] | None = None
    ) -> Reply:
        """Send one request and return the reply, whatever its status, with its whole body, which is small.

        An iterable body is iterated over again should the registry want a new login.

        Raises:
            TransientError: no connection, or no answer in time.
            UnavailableError, DeniedError, IntegrityError: see ``Transport.send``; the login fails; too long.
        """
        return self._reply(self._open(method, url, headers, body), url)

    def _chunks(self, descriptor: Descriptor) -> Iterator[bytes]:
        received_bytes = 0
        for attempt in range(self.options.retries + 1):
            try:
                for chunk in self._blob_from(descriptor.digest, received_bytes):
                    received_bytes += len(chunk)
                    yield chunk
            except TransientError as error:
                if attempt == self.options.retries:
                    raise
                wait(attempt, error, self.deadline)
            else:
                return

    def _blob_from(self, digest: str, start_bytes: int) -> Iterator[bytes]:
        """Stream a blob from an offset on; a server may ignore the range and start over."""
        action = f"read {self.repository}@{digest}"
        url = f"{self.base_url}/blobs/{digest}"
        response = self._open("GET", url, {"Range": f"bytes={start_bytes}-"} if start_bytes else {})
        try:
            if response.status not in OK:
                raise failure(self._reply(response, url), action)
            if "html" in response.headers.get("Content-Type", ""):
                raise not_a_registry(Reply(response.status, response.headers), action)
            resumed = response.headers.get("Content-Range", "").startswith(f"bytes {start_bytes}-")
            skip_bytes = 0 if response.status == 206 and resumed else start_bytes
            while chunk := self.transport.read(response, url):
                yield chunk[skip_bytes:]
                skip_bytes = max(0, skip_bytes - len(chunk))
        finally:
            response.close()

    def _get(self, url: str, headers: Mapping[str, str], action: str) -> Reply:
        """Return a successful reply with its whole body, which is small."""

        def once() -> Reply:
            reply = self.request("GET", url, headers)
            if reply.status not in OK:
                raise failure(reply, action)
            return reply

        return retried(once, self.options.retries, self.deadline)

    def _reply(self, response: BaseHTTPResponse, url: str) -> Reply:
        try:
            body = bytearray()
            while chunk := self.transport.read(response, url):
                body += chunk
                if len(body) > MAX_REPLY_BYTES:
                    raise IntegrityError(
                        f"{self.repository.host} sends more than the {MAX_REPLY_BYTES} bytes of any manifest"
                    )
        finally:
            response.close()  # a connection whose body was read to its end is back in the pool already
        return Reply(response.status, response.headers, bytes(body))

    def _open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | Iterable[bytes] | None = None
    ) -> BaseHTTPResponse:
        """Send a request, and follow redirects of a read; only the registry itself ever sees the credentials."""
        for _ in range(_MAX_REDIRECTS):
            response = self._send(method, url, headers, body)
            location = response.headers.get("Location")
            if method not in _READS or response.status not in REDIRECTS or location is None:
                return response
            discard(response)
            url = follow(url, location)
        raise UnavailableError(f"{self.repository.host} redirects in circles")

    def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | Iterable[bytes] | None
    ) -> BaseHTTPResponse:
        if not self.is_own(url):
            return self.transport.send(method, url, headers, body)
        return self.authorizer.authorized(
            lambda authorization: self.transport.send(method, url, {**headers, **authorization}, body),
            _challenge_in,
        )

    def is_own(self, url: str) -> bool:
        """Whether a URL leads to the registry that the credentials are for."""
        return origin_of(url) == origin_of(self.origin)

    def _fetch_token(self, request: TokenRequest) -> Mapping[str, object]:
        action = f"get a token for {self.repository}"

        def once() -> Reply:
            url = follow(self.origin, request.url)
            reply = self._reply(self.transport.send(request.method, url, request.headers, request.body), url)
            if reply.status == 404:  # says nothing about the repository
                raise not_a_registry(reply, action)
            if reply.status not in OK:
                raise failure(reply, action)
            return reply

        return json_object(retried(once, self.options.retries, self.deadline), action)


def _challenge_in(response: BaseHTTPResponse) -> str | None:
    if response.status != 401:
        return None
    discard(response)
    return response.headers.get("WWW-Authenticate", "")
