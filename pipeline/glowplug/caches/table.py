"""All kinds, and what follows from having all of them."""

from __future__ import annotations

from pathlib import PurePath

from glowplug.caches.inductor import INDUCTOR
from glowplug.caches.kind import Kind
from glowplug.caches.triton import TRITON
from glowplug.core.inventory import Relocation, Rewrite

KINDS: dict[str, Kind] = {kind.name: kind for kind in (INDUCTOR, TRITON)}

# Absolute paths in an artifact are written as if it were mounted there, so that a plain
# `COPY --from=REF /glowplug /glowplug`, or an image volume with that mount path, works without us.
ARTIFACT_ROOT = "/glowplug"


def environment(cache_root: PurePath) -> dict[str, str]:
    """Return the variables by which every library finds its folder below ``cache_root``, an absolute path."""
    return {kind.env: str(cache_root / kind.name) for kind in KINDS.values()}


def relocation(new_root: PurePath | str) -> Relocation:
    """Return how files that hold absolute paths are rewritten for the absolute folder ``new_root``."""

    def relocate(path: str) -> Rewrite | None:
        name, _, below = path.partition("/")
        kind = KINDS.get(name)
        return kind.relocation(below, f"{new_root}/{name}") if kind else None

    return relocate
