"""Mirrors: other registries with the same content, which are asked before the one that a reference names.

``GLOWPLUG_MIRRORS`` lists them, the nearest first. They are for reading only. A mirror is believed as to which document
a tag means, and in nothing else: every byte is checked against its digest, as the registry's own are.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from glowplug.core.oci import Descriptor, Document
from glowplug.core.reference import RegistryRepository, parse_repository
from glowplug.errors import GlowplugError, UsageError
from glowplug.registry.client import RegistrySource
from glowplug.registry.options import Options
from glowplug.registry.source import Source, ignore

MIRRORS_VARIABLE = "GLOWPLUG_MIRRORS"

# Nearer than the registry, or it is no use.
_CONNECT_TIMEOUT_S = 2.0
_READ_TIMEOUT_S = 10.0
_PLAIN_HTTP = "http://"


@dataclass(frozen=True)
class Mirror:
    """One entry of the list.

    Attributes:
        origin: the registry whose content it holds; empty for any registry.
        host: where it is; may carry a port.
        prefix: what it puts before the names of repositories; may be empty.
        plain_http: whether it is spoken to without TLS.
    """

    origin: str
    host: str
    prefix: str
    plain_http: bool

    def repository_of(self, repository: RegistryRepository) -> RegistryRepository:
        """Return where the mirror keeps a repository."""
        return RegistryRepository(self.host, "/".join(filter(None, (self.prefix, repository.name))))


def parse_mirrors(text: str) -> tuple[Mirror, ...]:
    """Read a list of ``[REGISTRY=][http://]HOST[/PREFIX]``, separated by commas or spaces.

    Raises:
        UsageError: an entry is none.
    """
    return tuple(_parse_mirror(entry) for entry in re.split(r"[\s,]+", text) if entry)


def _parse_mirror(entry: str) -> Mirror:
    origin, _, place = entry.rpartition("=")
    plain_http = place.startswith(_PLAIN_HTTP)
    place = place.removeprefix(_PLAIN_HTTP).removeprefix("https://").rstrip("/")
    with contextlib.suppress(UsageError):
        repository = parse_repository(f"{place}/name")
        if isinstance(repository, RegistryRepository) and "/" not in origin:
            prefix = repository.name.removesuffix("name").rstrip("/")
            return Mirror(origin, repository.host, prefix, plain_http)
    shown = entry.rpartition("@")[2]  # what someone wrote before it may be a password
    raise UsageError(
        f"'{shown}' in {MIRRORS_VARIABLE} is no mirror",
        hint="it looks like mirror.example:5000, or ghcr.io=mirror.example/ghcr for one registry only",
    )


@contextmanager
def open_mirrored(
    origin: RegistrySource,
    environ: Mapping[str, str],
    note: Callable[[str], None],
    supplied: Callable[[str, str], None],
) -> Iterator[Source]:
    """Put the mirrors that ``environ`` names for a registry before it; without any, it is used as it is.

    See ``open_source`` for what the callbacks are told.

    Raises:
        UsageError: the list cannot be read.
    """
    repository = origin.repository
    places = {
        mirror.repository_of(repository): mirror
        for mirror in parse_mirrors(environ.get(MIRRORS_VARIABLE, ""))
        if mirror.origin in ("", repository.host)
    }
    places.pop(repository, None)
    with contextlib.ExitStack() as stack:
        mirrors = [
            RegistrySource(place, _options(origin.options, mirror), environ=environ)
            for place, mirror in places.items()
        ]
        for source in mirrors:
            stack.callback(source.close)
        yield MirroredSource(mirrors, origin, note, supplied) if mirrors else origin


def _options(options: Options, mirror: Mirror) -> Options:
    """Be impatient with a mirror: the next one is the retry, and half of the time is left to the registry."""
    return options._replace(
        timeout_s=options.timeout_s / 2 if options.timeout_s else None,
        connect_timeout_s=min(options.connect_timeout_s, _CONNECT_TIMEOUT_S),
        read_timeout_s=min(options.read_timeout_s, _READ_TIMEOUT_S),
        retries=0,
        plain_http=mirror.plain_http,
        login_variables=False,
    )


class MirroredSource:
    """A ``Source`` that asks mirrors first; one that fails, in whatever way, is not asked again."""

    def __init__(
        self,
        mirrors: Sequence[RegistrySource],
        origin: Source,
        note: Callable[[str], None],
        supplied: Callable[[str, str], None],
    ) -> None:
        self._mirrors = list(mirrors)
        self._origin = origin
        self._note = note
        self._supplied = supplied
        self._lock = threading.Lock()

    def resolve(self, selector: str) -> Document:
        """See ``Source.resolve``. What a tag means to a mirror may be out of date."""
        for mirror in tuple(self._mirrors):
            with self._leaving_out(mirror):
                return mirror.resolve(selector)
        return self._origin.resolve(selector)

    def copy_blob(
        self, descriptor: Descriptor, file: IO[bytes], on_bytes: Callable[[int], None] = ignore
    ) -> None:
        """See ``Source.copy_blob``. Where a mirror fails, the next one begins anew: it may hold other bytes."""
        for mirror in tuple(self._mirrors):
            with self._leaving_out(mirror):
                mirror.copy_blob(descriptor, file, on_bytes)
                self._supplied(descriptor.digest, mirror.repository.host)
                return
        self._origin.copy_blob(descriptor, file, on_bytes)

    def tags(self) -> list[str]:
        """See ``Source.tags``. A mirror knows only those that someone asked it for."""
        return self._origin.tags()

    def referrers(self, subject: str, artifact_type: str) -> tuple[Descriptor, ...] | None:
        """See ``Source.referrers``. A mirror of content holds none of what was attached later."""
        return self._origin.referrers(subject, artifact_type)

    @contextmanager
    def _leaving_out(self, mirror: RegistrySource) -> Iterator[None]:
        """Go on without a mirror when it fails, and say so once."""
        try:
            yield
        except GlowplugError as error:
            with self._lock:
                if mirror not in self._mirrors:
                    return  # as another thread has said
                self._mirrors.remove(mirror)
            self._note(f"going on without the mirror {mirror.repository.host}: {error}")
