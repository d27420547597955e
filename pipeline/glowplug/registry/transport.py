"""One HTTP request over urllib3: timeouts, proxies, certificates; no retry, no redirect, no credentials."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit

import glowplug
from glowplug.core.reference import RegistryRepository
from glowplug.errors import DeniedError, UnavailableError
from glowplug.registry.options import Deadline, Options
from glowplug.registry.retry import TransientError

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager

USER_AGENT = f"glowplug/{glowplug.__version__}"
CHUNK_BYTES = 256 * 1024
# As many layers as an artifact has may be read at once.
_CONNECTIONS_PER_HOST = 16


class Transport:
    """Sends requests; connections are kept and shared between threads."""

    def __init__(self, options: Options, deadline: Deadline) -> None:
        self._options = options
        self._deadline = deadline
        self._pools: dict[str, PoolManager] = {}
        self._resolved: set[str] = set()

    def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | Iterable[bytes] | None = None
    ) -> BaseHTTPResponse:
        """Send one request and return the response with its body unread.

        A body that comes in chunks needs a ``Content-Length`` among the headers, and is iterated over once.
        A server that stops reading it is noticed after the longest silence at most.

        Raises:
            TransientError: no connection, or no answer in time.
            UnavailableError: the time is up, or the server's certificate cannot be trusted.
            DeniedError: the URL is plain HTTP to another machine.
        """
        import urllib3  # noqa: PLC0415

        self.permit(url)
        connect_s, read_s = self.timeouts_s(url)
        self._await_name(urlsplit(proxy_for(url) or url).hostname or "", connect_s)
        # The total counts what sending has taken off the time to wait for the answer.
        timeout = urllib3.Timeout(total=self._left_s(url), connect=connect_s, read=read_s)
        try:
            return self._pool(url).request(
                method,
                url,
                body=body if body is None or isinstance(body, bytes) else self._while_in_time(body, url),
                headers={"User-Agent": USER_AGENT, **headers},
                timeout=timeout,
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            self._left_s(url)  # a wait that the budget ended is not the server's
            raise unreachable(url, error) from error

    def read(self, response: BaseHTTPResponse, url: str) -> bytes:
        """Return bytes of a body as they come, nothing at its end; a trickle meets the deadline too.

        Raises:
            TransientError: the connection broke, or is silent.
            UnavailableError: the time is up.
        """
        import urllib3  # noqa: PLC0415

        action = f"reading from {urlsplit(url).netloc}"
        left_s = self._deadline.left_s(action)
        socket = getattr(response.connection, "sock", None)  # none once the server has announced to close
        if socket is not None:
            socket.settimeout(min(self._options.read_timeout_s, left_s))
        try:
            return response.read1(CHUNK_BYTES)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            self._deadline.left_s(action)
            raise unreachable(url, error) from error

    def _await_name(self, host: str, timeout_s: float) -> None:
        """Look a name up beforehand: libc waits for a silent name server as long as *it* wants to.

        Raises:
            TransientError: there was no answer in time. A negative answer is left to the request.
            UnavailableError: the time is up.
        """
        if host in self._resolved:
            return
        lookup = threading.Thread(target=_look_up, args=(host,), daemon=True)
        lookup.start()
        lookup.join(timeout_s)
        if lookup.is_alive():
            self._deadline.left_s(f"looking up {host}")
            raise TransientError(f"cannot talk to {host}: the name does not resolve in time")
        self._resolved.add(host)

    def timeouts_s(self, url: str) -> tuple[float, float]:
        """Return the time to connect and the time to wait for bytes, within the deadline."""
        left_s = self._left_s(url)
        return min(self._options.connect_timeout_s, left_s), min(self._options.read_timeout_s, left_s)

    def permit(self, url: str) -> None:
        """Refuse plain HTTP to another machine, also where a redirect or a token realm leads there.

        Raises:
            DeniedError: the URL is refused.
        """
        parts = urlsplit(url)
        if parts.scheme == "https" or (
            parts.scheme == "http" and (self._options.plain_http or is_loopback(parts.netloc))
        ):
            return
        raise DeniedError(
            f"the connection to {parts.netloc or url} would not be encrypted",
            hint="--insecure-registry allows it",
        )

    def close(self) -> None:
        """Close all connections."""
        for pool in self._pools.values():
            pool.clear()

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """The system's certificates, or those of ``REQUESTS_CA_BUNDLE`` or ``SSL_CERT_FILE``.

        Raises:
            UnavailableError: that file cannot be read.
        """
        bundle = self.ca_bundle
        try:
            if bundle and os.path.isdir(bundle):  # noqa: PTH112
                return ssl.create_default_context(capath=bundle)
            return ssl.create_default_context(cafile=bundle)
        except OSError as error:
            raise UnavailableError(f"cannot read the certificates in {bundle}: {error}") from error

    @property
    def ca_bundle(self) -> str | None:
        """The file or folder of trusted certificates that the environment names."""
        return os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("SSL_CERT_FILE") or None

    def _left_s(self, url: str) -> float:
        return self._deadline.left_s(f"a request to {urlsplit(url).netloc}")

    def _while_in_time(self, chunks: Iterable[bytes], url: str) -> Iterator[bytes]:
        for chunk in chunks:
            self._left_s(url)
            yield chunk

    def _pool(self, url: str) -> PoolManager:
        proxy, encrypted = proxy_for(url), url.startswith("https:")
        key = f"{encrypted} {proxy}"
        if key not in self._pools:
            # Reading the system's certificates takes longer than a request: not without need.
            self._pools.setdefault(key, _new_pool(proxy, self.tls if encrypted else None))
        return self._pools[key]


def _look_up(host: str) -> None:
    with contextlib.suppress(OSError, UnicodeError):
        socket.getaddrinfo(host, None)


def discard(response: BaseHTTPResponse) -> None:
    """Finish with a response, and keep its connection when the rest of the body is worth reading for that."""
    length = response.headers.get("Content-Length", "")
    if length.isdecimal() and int(length) <= CHUNK_BYTES:
        response.drain_conn()
    else:
        response.close()


def follow(base: str, target: str) -> str:
    """Return the URL to which ``base`` refers as ``target``, absolute or relative.

    Raises:
        UnavailableError: that is no URL.
    """
    try:
        url = urljoin(base, target)
        origin_of(url)
    except ValueError as error:
        raise UnavailableError(f"{urlsplit(base).netloc} refers to {target!r}, which is no URL") from error
    return url


def origin_of(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port: credentials for one origin are not for another."""
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or ""), parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def is_loopback(host: str) -> bool:
    """Whether ``host``, maybe with a port, is this machine."""
    return RegistryRepository(host, "").is_loopback


def unreachable(url: str, error: BaseException) -> UnavailableError:
    """Say in one sentence why nothing came back, from the innermost cause that an HTTP library wrapped up."""
    host = urlsplit(url).netloc.rpartition("@")[2]
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and cause not in causes:
        causes.append(cause)
    tls = next((c for c in causes if isinstance(c, ssl.SSLError)), None)
    if tls is not None:
        return UnavailableError(
            f"cannot trust {host}: {getattr(tls, 'verify_message', '') or tls.reason or tls}",
            hint="name your authority's certificates in SSL_CERT_FILE; without TLS: --insecure-registry",
        )
    if any(isinstance(c, TimeoutError) or "Timeout" in type(c).__name__ for c in causes):
        return TransientError(f"{host} does not answer in time")
    reason = next(
        (c.strerror for c in causes if isinstance(c, OSError) and c.strerror), "the connection broke"
    )
    return TransientError(f"cannot talk to {host}: {reason}")


def _new_pool(proxy: str, tls: ssl.SSLContext | None) -> PoolManager:
    import urllib3  # noqa: PLC0415

    if not proxy:
        return urllib3.PoolManager(maxsize=_CONNECTIONS_PER_HOST, ssl_context=tls)
    parts = urlsplit(proxy)
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else None
    return urllib3.ProxyManager(
        proxy,
        proxy_headers=urllib3.make_headers(proxy_basic_auth=login),
        maxsize=_CONNECTIONS_PER_HOST,
        ssl_context=tls,
    )


def proxy_for(url: str) -> str:
    """Return the proxy that ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY`` name for a URL, or nothing."""
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415

    parts = urlsplit(url)
    if is_loopback(parts.netloc) or proxy_bypass(parts.netloc):
        return ""
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    return proxy if "://" in proxy or not proxy else f"http://{proxy}"
