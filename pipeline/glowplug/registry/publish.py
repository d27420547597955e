"""A repository in a registry, written over oras-py (OCI distribution-spec 1.1, "Push").

What oras-py 0.2 lacks is mended in the subclass below: tokens follow the scope and are renewed, every wait
ends, retries are few and heed the registry's advice, blobs are streamed instead of read into memory,
credentials come from the same places as for reading, and the bytes of manifests are ours. Its ``push`` and
``pull`` are not used.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import oras.container
import oras.provider
import requests
import requests.adapters

from glowplug.core.oci import Descriptor, Document
from glowplug.core.reference import RegistryRepository
from glowplug.errors import GlowplugError
from glowplug.registry.client import RegistrySource
from glowplug.registry.options import Options
from glowplug.registry.replies import TRANSIENT, Reply, failure
from glowplug.registry.retry import retried
from glowplug.registry.source import ignore
from glowplug.registry.transport import USER_AGENT, proxy_for, unreachable
from glowplug.registry.upload import OCTETS, check_stored, is_held, stored, upload_location, with_digest

_SEND_BYTES = 256 * 1024


class RegistrySink:
    """A repository that is written, and read by the pull client with the same tokens."""

    def __init__(self, repository: RegistryRepository, options: Options) -> None:
        self._repository = repository
        self._source = RegistrySource(repository, options, actions="pull,push")
        self._oras = _OrasRegistry(self._source)
        self._container = self._oras.container_of(repository)

    def close(self) -> None:
        """Close all connections."""
        self._oras.session.close()
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
        location = self._oras.start_upload(self._container, f"push to {self._repository}")
        with contextlib.suppress(GlowplugError):  # not every registry can cancel; each forgets in time
            self._oras.request_once("DELETE", location)

    def has_blob(self, digest: str) -> bool:
        """See ``Sink.has_blob``.

        Raises:
            DeniedError, UnavailableError: the registry does not say.
        """
        return self._oras.blob_exists({"digest": digest}, self._container)

    def put_blob(self, descriptor: Descriptor, path: Path) -> None:
        """See ``Sink.put_blob``; the registry compares what it received with the digest."""
        layer = {"digest": descriptor.digest, "size": descriptor.size_bytes}
        self._oras.upload_blob(str(path), self._container, layer)

    def put_document(self, document: Document, tag: str | None) -> None:
        """See ``Sink.put_document``."""
        name = tag or document.digest
        action = f"push {self._repository}{':' if tag else '@'}{name}"
        url, headers = f"{self._source.base_url}/manifests/{name}", {"Content-Type": document.media_type}

        def once() -> None:
            response = self._oras.do_request(url, "PUT", document.raw, headers)
            check_stored(_reply(response), document.digest, action)

        stored(once)


class _OrasRegistry(oras.provider.Registry):  # type: ignore[misc]  # oras has no types
    """oras-py's registry over the authorizer, the deadline and the retries of the pull client."""

    def __init__(self, source: RegistrySource) -> None:
        scheme, _, host = source.origin.partition("://")
        super().__init__(hostname=host, insecure=scheme == "http")
        self._source = source
        for prefix in ("https://", "http://"):
            self.session.mount(prefix, _Adapter(source))
        # requests has its own ideas about proxies, certificates, and passwords in ~/.netrc.
        self.session.trust_env = False

    def container_of(self, repository: RegistryRepository) -> oras.container.Container:
        """Return the repository in oras' terms, past its parser, to which "localhost" is no host."""
        container = self.get_container("placeholder")
        container.namespace, _, container.repository = repository.name.rpartition("/")
        return container

    def do_request(
        self,
        url: str,
        method: str = "GET",
        data: Any = None,
        headers: Mapping[str, str] | None = None,
        **_ignored: Any,
    ) -> requests.Response:
        """Send a request, again while that may help; other replies come back whatever they say."""
        return retried(
            lambda: self.request_once(method, url, data, headers),
            self._source.options.retries,
            self._source.deadline,
        )

    def blob_exists(self, layer: Mapping[str, Any], container: oras.container.Container) -> bool:
        """Ask for a blob; a refusal is an error here, not an absence."""
        response = self.do_request(f"{self.prefix}://{container.get_blob_url(layer['digest'])}", "HEAD")
        return is_held(_reply(response), f"look for {layer['digest']} in {self._source.repository}")

    def put_upload(
        self, blob: str, container: oras.container.Container, layer: Mapping[str, Any]
    ) -> requests.Response:
        """Upload a blob in one PUT, streamed from its file; a broken upload starts over."""
        action = f"push {layer['digest']} to {self._source.repository}"

        def once(file: IO[bytes]) -> requests.Response:
            url = with_digest(self.start_upload(container, action), layer["digest"])
            response = self.request_once("PUT", url, file, OCTETS)
            check_stored(_reply(response), layer["digest"], action)
            return response

        with open(blob, "rb") as file:  # noqa: PTH123
            return stored(
                lambda: retried(lambda: once(file), self._source.options.retries, self._source.deadline)
            )

    def start_upload(self, container: oras.container.Container, action: str) -> str:
        """Open an upload session and return its URL."""
        url = f"{self.prefix}://{container.upload_blob_url()}"
        return upload_location(_reply(self.do_request(url, "POST")), url, action)

    def request_once(
        self, method: str, url: str, data: Any = None, headers: Mapping[str, str] | None = None
    ) -> requests.Response:
        """Send a request, authorized when it goes to the registry itself, and read the reply.

        Raises:
            TransientError: no reply, or one that may change.
            UnavailableError, DeniedError: as the pull client's.
        """
        self._source.transport.permit(url)

        def send(authorization: Mapping[str, str]) -> requests.Response:
            if hasattr(data, "seek"):
                data.seek(0)  # an upload that was challenged starts over
            response: requests.Response = self.session.request(
                method,
                url,
                data=data,
                headers={"User-Agent": USER_AGENT, **(headers or {}), **authorization},
                timeout=self._source.transport.timeouts_s(url),
                verify=self._source.transport.ca_bundle or True,
                proxies={"all": proxy_for(url)},
                allow_redirects=method == "HEAD",
            )
            return response

        try:
            own = self._source.is_own(url)
            response = self._source.authorizer.authorized(send, _challenge_in) if own else send({})
        except requests.RequestException as error:
            raise unreachable(url, error) from error
        if response.status_code in TRANSIENT:
            raise failure(_reply(response), f"{method} {url.partition('?')[0]}")
        return response


class _Adapter(requests.adapters.HTTPAdapter):
    """Trusts what the pull client trusts, and sends files in larger pieces than http.client would."""

    def __init__(self, source: RegistrySource) -> None:
        self._source = source
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        if self._source.origin.startswith("https:"):
            kwargs["ssl_context"] = self._source.transport.tls
        super().init_poolmanager(*args, blocksize=_SEND_BYTES, **kwargs)


def _reply(response: requests.Response) -> Reply:
    return Reply(response.status_code, response.headers, response.content)


def _challenge_in(response: requests.Response) -> str | None:
    return response.headers.get("WWW-Authenticate", "") if response.status_code == 401 else None
