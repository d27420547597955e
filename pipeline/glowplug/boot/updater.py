"""When a running server's new entries are published: once its cache has come to rest, and the rest at its end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from glowplug.boot.fetch import Fetched
from glowplug.boot.update import (
    Published,
    look_for_changes,
    publish_direct,
    publish_pending,
    read_published,
)
from glowplug.caches.table import KINDS
from glowplug.core.reference import Repository, is_digest
from glowplug.errors import GlowplugError
from glowplug.registry.options import Options
from glowplug.registry.sink import open_sink_without_extras
from glowplug.report.console import Console

Mode = Literal["pending", "direct"]

# Compiling one graph is followed by the next within seconds; a cache that rests longer has what its server needs.
QUIET_S = 30.0
# A look is a walk over some thousand files.
_LOOK_EVERY_S = 10.0


@dataclass(frozen=True)
class Rest:
    """How long a cache has looked the same."""

    looks: tuple[int, int]
    since: float

    def next(self, looks: tuple[int, int], now: float) -> Rest:
        """Return the state after another look."""
        return self if looks == self.looks else Rest(looks, now)


class Updater:
    """Publishes what a server compiled. Its methods are called from one thread, and never raise a GlowplugError."""

    def __init__(
        self, mode: Mode, fetched: Fetched, environ: Mapping[str, str], options: Options, console: Console
    ) -> None:
        self._mode = mode
        self._fetched = fetched
        self._environ = environ
        self._options = options
        self._console = console
        self._is_ready = False
        self._done = look_at(fetched.path)
        self._looked = time.monotonic()
        self._rest = Rest(self._done, self._looked)

    def on_ready(self) -> None:
        """From now on, what was compiled is known to serve: a setup that fails publishes nothing."""
        self._is_ready = True

    def on_tick(self) -> None:
        """Publish when the cache has changed and come to rest."""
        now = time.monotonic()
        if now - self._looked < _LOOK_EVERY_S:
            return
        self._looked = now
        self._rest = self._rest.next(look_at(self._fetched.path), now)
        if self._rest.looks != self._done and now - self._rest.since >= QUIET_S:
            self._publish(self._rest.looks, self._options.timeout_s)

    def on_stopped(self, deadline: float) -> None:
        """Publish what is left, within what is left of the grace period."""
        looks = look_at(self._fetched.path)
        if looks == self._done:
            return
        if self._is_ready:
            self._publish(looks, max(0.1, deadline - time.monotonic()))
        else:
            self._console.line(
                "what was compiled here is not published: the server was never known to be ready"
            )

    def _publish(self, looks: tuple[int, int], timeout_s: float | None) -> None:
        try:
            self._publish_within(timeout_s)
        except GlowplugError as error:
            self._console.warn(f"the new cache entries were not published: {error}")
            self._console.note(error.hint)
        # Also after a failure: the next try is when there is more to publish.
        self._done = looks

    def _publish_within(self, timeout_s: float | None) -> None:
        repository: Repository = self._fetched.reference.repository
        options = Options(timeout_s=timeout_s, plain_http=self._options.plain_http)
        with open_sink_without_extras(repository, options) as sink:
            published: Published = read_published(sink, self._fetched.digest)
            changes = look_for_changes(self._fetched.path, self._environ)
            publish: Callable[..., str | None] = publish_direct if self._mode == "direct" else publish_pending
            name = publish(sink, published, changes)
        if name is not None:
            published_as = f"{repository}{'@' if is_digest(name) else ':'}{name}"
            self._console.line(f"published what was compiled here: {published_as}")


def look_at(cache_root: Path) -> tuple[int, int]:
    """Return the number of cache files and their bytes: cheap to know, and different after any compilation."""
    files, size_bytes = 0, 0
    for kind in KINDS.values():
        for folder, folders, names in os.walk(cache_root / kind.name):
            folders[:] = [name for name in folders if kind.belongs(name)]
            for name in filter(kind.belongs, names):
                try:
                    size_bytes += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118
                except OSError:  # renamed since
                    continue
                files += 1
    return files, size_bytes
