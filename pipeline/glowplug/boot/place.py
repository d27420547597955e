"""Where caches may be put: torch loads libraries from there, and writes locks and new entries there."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from glowplug.archive.owned import Family, OwnedFolder, own_folder
from glowplug.errors import UsageError

# A server may go on for long without a change to the folder itself.
_PRIVATE = Family("glowplug-run-", "", abandoned_s=30 * 24 * 3600.0, heritable=True)


def private_folder(environ: Mapping[str, str]) -> OwnedFolder:
    """Make a folder that only this user can enter, and remove those of which every user was killed.

    It is locked by this process, and by those that it starts or becomes: whoever uses it has inherited the lock.

    Raises:
        UsageError: there is no such place from which libraries can be loaded.
    """
    for parent in _cache_homes(environ):
        try:
            parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not is_noexec(parent):
                return own_folder(parent, _PRIVATE)
        except OSError:
            continue
    raise UsageError(
        "there is no folder to put the cache in", hint="name a writable one, not mounted noexec, with --dest"
    )


@contextlib.contextmanager
def place(wanted: Path | None, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield where the cache goes: as wanted, or into a private folder, which does not stay when nothing comes.

    Raises:
        UsageError: there is no such place.
    """
    if wanted is not None:
        yield wanted
        return
    private = private_folder(environ)
    try:
        yield private.path / "caches"
    except BaseException:
        private.remove()
        raise


def _cache_homes(environ: Mapping[str, str]) -> list[Path]:
    """Return where private folders may be, best first (XDG base directory specification: no relative ones)."""
    xdg, home = Path(environ.get("XDG_CACHE_HOME", "")), Path(environ.get("HOME", ""))
    named = [xdg] if xdg.is_absolute() else [home / ".cache"] if home.is_absolute() else []
    homes = [folder / "glowplug" for folder in named]
    with contextlib.suppress(OSError):  # no temporary folder is usable
        homes.append(Path(tempfile.gettempdir()))
    return homes


def require_usable(destination: Path) -> None:
    """Refuse a place from which the loader maps no library: torch fails hard there, in the first request.

    Raises:
        UsageError: the destination is on a file system that is mounted noexec, or cannot stand in PYTHONPATH.
    """
    if os.pathsep in str(destination):
        raise UsageError(
            f"{destination} holds a '{os.pathsep}', which PYTHONPATH takes for an end",
            hint="choose another folder",
        )
    if is_noexec(destination):
        raise UsageError(
            f"{destination} is on a file system that is mounted noexec, where torch cannot load its kernels",
            hint="choose a folder on another file system",
        )


def is_noexec(path: Path) -> bool:
    """Return whether ``path``, or the nearest folder above it that exists, is mounted noexec."""
    # Not Path.exists, which raises for a name that is too long.
    existing = next(folder for folder in (path, *path.parents) if os.path.exists(folder))  # noqa: PTH110
    return bool(os.statvfs(existing).f_flag & os.ST_NOEXEC)
