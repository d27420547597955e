"""Activate: the environment in which torch finds a fetched cache, and computes the keys that it was stored under."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from glowplug.caches.table import environment
from glowplug.core.contract import recorded
from glowplug.core.record import START_FILE, Record

CACHE_VARIABLE = "GLOWPLUG_CACHE"


def activation(record: Record, path: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to set before torch is imported, for a process that has ``environ`` otherwise.

    The contract; where each kind of cache is; and, ahead of an inherited ``PYTHONPATH``, the artifact's own start
    file, by which keys do not depend on the server's module names.
    """
    start = str((path / START_FILE).parent)
    inherited = environ.get("PYTHONPATH")
    return {
        **record.contract,
        **environment(path),
        "PYTHONPATH": f"{start}{os.pathsep}{inherited}" if inherited else start,
        CACHE_VARIABLE: str(path),
    }


def strangers(record: Record, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that enter torch's keys and are set here, but were not at the capture.

    They stay as they are, since someone set them on purpose; but with them torch looks for other entries.
    """
    return tuple(name for name in recorded(environ) if name not in record.contract)
