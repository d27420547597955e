"""A folder that appears at its place complete, or not at all.

Until then it grows in a hidden folder beside its place, which its owner has locked. A process that is killed leaves that
folder behind, without the lock: the next one to put something beside it removes it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from glowplug.errors import GlowplugError, UsageError

_ELSEWHERE = "choose a folder that does not exist yet, on a local, writable file system"
_REFUSED = (
    errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG
)  # fmt: skip
_FULL = (errno.ENOSPC, errno.EDQUOT)

_PREFIX, _SUFFIX = ".glowplug.", ".partial"
# Where a lock says nothing about its owner, nothing younger than this is removed: no download takes so long.
_ABANDONED_S = 24 * 3600.0


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
        _sweep(destination.parent)
        with _owned_folder(destination.parent) as staging:
            yield staging
            (staging / "tree").rename(destination)
    except (ConnectionError, TimeoutError):  # the network's, passing through
        raise
    except OSError as error:
        raise _explained(error, destination) from error


@contextmanager
def _owned_folder(parent: Path) -> Iterator[Path]:
    """Make a folder that stays locked until it is removed."""
    while True:
        name = tempfile.mkdtemp(prefix=f"{_PREFIX}{_kernel()}.", suffix=_SUFFIX, dir=parent)
        with suppress(FileNotFoundError, BlockingIOError):  # it was swept before it was locked
            lock = _lock(Path(name))
            break
    try:
        yield Path(name)
    finally:
        shutil.rmtree(name, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _sweep(parent: Path) -> None:
    """Remove what killed processes left in ``parent``, and nothing that a live one works on."""
    for folder in parent.glob(f"{_PREFIX}*{_SUFFIX}"):
        with suppress(OSError):  # it is gone, or has an owner, or belongs to another user
            # Some network file systems grant the same lock once on every machine. There, only age tells.
            same_kernel = folder.name.startswith(f"{_PREFIX}{_kernel()}.")
            if not same_kernel and time.time() - folder.lstat().st_mtime < _ABANDONED_S:
                continue
            lock = _lock(folder)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _lock(folder: Path) -> int | None:
    """Lock a folder by an open descriptor, which the kernel closes with the process; ``None`` where nothing can be locked.

    Raises:
        BlockingIOError: it has an owner.
        FileNotFoundError: it was removed.
    """
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder.lstat()  # it may have been removed between the two calls
    except (BlockingIOError, FileNotFoundError):
        os.close(lock)
        raise
    except OSError:  # NFS locks no folders
        os.close(lock)
        return None
    return lock


def _kernel() -> str:
    """Return a name for the running kernel: among its processes, a lock means what it says."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    except OSError:
        return "-"


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
