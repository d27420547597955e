"""A folder that appears at its place complete, or not at all.

Until then it grows in a hidden folder beside its place, which its owner has locked. A process that is killed leaves that
folder behind, without the lock: the next one to put something beside it removes it.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from glowplug.archive.owned import Family, own_folder
from glowplug.errors import GlowplugError, UsageError

_ELSEWHERE = "choose a folder that does not exist yet, on a local, writable file system"
_REFUSED = (
    errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG
)  # fmt: skip
_FULL = (errno.ENOSPC, errno.EDQUOT)

# No download takes longer than a day.
_PARTIAL = Family(".glowplug.", ".partial", abandoned_s=24 * 3600.0)


@contextmanager
def staged(destination: Path) -> Iterator[Path]:
    """Yield a private, empty folder beside ``destination``; its child ``tree`` then becomes the destination.

    On any exception the destination stays as it was, and nothing is left beside it.

    Raises:
        UsageError: the destination is taken, or cannot be written to.
        GlowplugError: the disk is full or fails.
    """
    _require_free(destination)
    try:
        _make_parents(destination)
        staging = own_folder(destination.parent, _PARTIAL)
        try:
            yield staging.path
            (staging.path / "tree").rename(destination)
        finally:
            staging.remove()
    except (ConnectionError, TimeoutError):  # the network's, passing through
        raise
    except OSError as error:
        raise _explained(error, destination) from error


def _make_parents(destination: Path) -> None:
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UsageError(f"{destination.parent} is not a folder", hint=_ELSEWHERE) from error


def _require_free(destination: Path) -> None:
    try:
        taken = any(destination.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise _explained(error, destination) from error
    if taken:
        raise UsageError(f"the folder {destination} is not empty", hint=_ELSEWHERE)


def _explained(error: OSError, destination: Path) -> GlowplugError:
    if error.errno in _FULL:
        return GlowplugError(
            f"the disk of {destination} is full", hint="free some space, or choose a folder on another disk"
        )
    if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
        return UsageError(f"the folder {destination} was filled by someone else meanwhile", hint=_ELSEWHERE)
    if error.errno == errno.EBUSY:
        return UsageError(f"{destination} is a mount point", hint="choose a folder below it")
    if error.errno in _REFUSED:
        return UsageError(f"cannot write to {destination}: {error.strerror}", hint=_ELSEWHERE)
    return GlowplugError(f"cannot write to {destination}: {error.strerror or error}")
