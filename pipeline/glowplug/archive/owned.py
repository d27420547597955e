"""Folders that belong to a process: locked while it lives, and swept by the next one when it was killed.

The lock is an open descriptor, which the kernel closes with the process, or with the last one that has inherited it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Family(NamedTuple):
    """Folders of one purpose, side by side.

    Attributes:
        prefix, suffix: of their names, which nobody else gives.
        abandoned_s: where a lock says nothing about its owner, what was not changed for so many seconds has none.
        heritable: the lock passes to the processes that ours starts, and stays until the last of them has ended.
    """

    prefix: str
    suffix: str
    abandoned_s: float
    heritable: bool = False


class OwnedFolder(NamedTuple):
    """A folder of this process, and the descriptor that locks it: ``None`` where no folder can be locked."""

    path: Path
    lock: int | None

    def remove(self) -> None:
        """Remove the folder with all that is in it, as far as that is possible."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self.lock is not None:
            os.close(self.lock)


def own_folder(parent: Path, family: Family) -> OwnedFolder:
    """Make a new folder that only this user can enter, and remove those of killed processes beside it.

    Raises:
        OSError: it cannot be made.
    """
    sweep(parent, family)
    while True:
        name = f"{family.prefix}{_kernel()}."
        folder = Path(tempfile.mkdtemp(prefix=name, suffix=family.suffix, dir=parent))
        with suppress(FileNotFoundError, BlockingIOError):  # it was swept before it was locked
            lock = _lock(folder)
            if lock is not None:
                os.set_inheritable(lock, family.heritable)
            return OwnedFolder(folder, lock)


def sweep(parent: Path, family: Family) -> None:
    """Remove what killed processes of this user left in ``parent``, and nothing that a live one works on."""
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(family.prefix) and entry.name.endswith(family.suffix):
                with suppress(OSError):  # it is gone, or has an owner
                    _remove_abandoned(Path(entry.path), family)


def _remove_abandoned(folder: Path, family: Family) -> None:
    status = folder.lstat()
    if status.st_uid != os.geteuid():
        return
    # Some network file systems grant the same lock once on every machine. There, only age tells.
    same_kernel = folder.name.startswith(f"{family.prefix}{_kernel()}.")
    is_old = time.time() - status.st_mtime > family.abandoned_s
    if not (same_kernel or is_old):
        return
    lock = _lock(folder)
    if lock is not None or is_old:
        OwnedFolder(folder, lock).remove()


def _lock(folder: Path) -> int | None:
    """Lock a folder; ``None`` where nothing can be locked.

    Raises:
        BlockingIOError: it has an owner.
        OSError: it was removed, or is no folder.
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
