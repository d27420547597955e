"""Activate: the environment in which torch finds a fetched cache, and computes the keys that it was stored under."""

from __future__ import annotations

from pathlib import Path

from glowplug.caches.table import environment
from glowplug.core.record import Record

CACHE_VARIABLE = "GLOWPLUG_CACHE"


def activation(record: Record, path: Path) -> dict[str, str]:
    """Return the variables to set before torch is imported: the contract, and where each kind of cache is."""
    return {**record.contract, **environment(path), CACHE_VARIABLE: str(path)}
