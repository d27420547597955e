"""Where caches may be put: torch loads libraries from there, and writes locks and new entries there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from glowplug.errors import UsageError


def private_folder(environ: Mapping[str, str]) -> Path:
    """Return a path of which nothing exists yet but a parent that only this user can enter.

    Raises:
        UsageError: there is no such place from which libraries can be loaded.
    """
    home = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or "/nonexistent", ".cache"))
    for parent in (home / "glowplug", Path(tempfile.gettempdir())):
        try:
            parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not is_noexec(parent):
                return Path(tempfile.mkdtemp(prefix="run-", dir=parent)) / "caches"
        except OSError:
            continue
    raise UsageError(
        "there is no folder to put the cache in", hint="name a writable one, not mounted noexec, with --dest"
    )


def require_executable(destination: Path) -> None:
    """Refuse a place from which the loader maps no library: torch fails hard there, in the first request.

    Raises:
        UsageError: the destination is on a file system that is mounted noexec.
    """
    if is_noexec(destination):
        raise UsageError(
            f"{destination} is on a file system that is mounted noexec, where torch cannot load its kernels",
            hint="choose a folder on another file system",
        )


def is_noexec(path: Path) -> bool:
    """Return whether ``path``, or the nearest folder above it that exists, is mounted noexec."""
    existing = next(folder for folder in (path, *path.parents) if folder.exists())
    return bool(os.statvfs(existing).f_flag & os.ST_NOEXEC)
