"""What a store lets go of: blobs that nobody used for long or that do not fit, and what killed processes left."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from glowplug.boot.settings import Setting
from glowplug.report.console import Console

# What is not finished has a name that begins so.
PARTIAL = ".partial-"
# A download that takes longer than this was not finished by anyone.
_PARTIAL_AGE_S = 24 * 3600.0
# Some hundred bytes each; their names tell their age.
_MAX_RECEIPTS = 1000
_DAY_S = 24 * 3600.0

# Room for some hundred versions of a large model's caches.
_MAX_BYTES = Setting("GLOWPLUG_STORE_MAX_BYTES", 20e9, "bytes")
_MAX_AGE = Setting("GLOWPLUG_STORE_MAX_AGE_DAYS", 90.0, "days")


class Limits(NamedTuple):
    """What a store may hold.

    Attributes:
        max_bytes: the size of all blobs.
        max_age_s: how long ago a blob may have been used last.
    """

    max_bytes: float = _MAX_BYTES.default
    max_age_s: float = _MAX_AGE.default * _DAY_S


def read_limits(environ: Mapping[str, str], console: Console) -> Limits:
    """Return the limits that the environment sets."""
    return Limits(_MAX_BYTES.read(environ, console), _MAX_AGE.read(environ, console) * _DAY_S)


def collect(root: Path, limits: Limits) -> int:
    """Remove the blobs that are too old, then those that were not used for longest, until the rest fits; return their bytes.

    Who is reading a blob keeps it: an open file outlives its name. What cannot be removed stays.
    """
    blobs, refs, receipts = root / "blobs" / "sha256", root / "refs", root / "receipts"
    for folder in (blobs, refs, receipts):
        _remove_all(_abandoned(folder))
    removed_bytes = _remove_all(_surplus(blobs, limits))
    if removed_bytes:
        _remove_all(_files(refs, lambda name: not _leads_somewhere(refs / name, blobs)))
    _remove_all(_outdated(receipts))
    return removed_bytes


class _File(NamedTuple):
    used: float
    path: str
    size_bytes: int


def _files(folder: Path, is_wanted: Callable[[str], bool]) -> Iterator[_File]:
    """Yield the files with such names, as far as they are still there."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if is_wanted(entry.name):
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    yield _File(status.st_mtime, entry.path, status.st_size)


def _abandoned(folder: Path) -> Iterator[_File]:
    partial = _files(folder, lambda name: name.startswith(PARTIAL))
    return (file for file in partial if time.time() - file.used > _PARTIAL_AGE_S)


def _surplus(blobs: Path, limits: Limits) -> Iterator[_File]:
    """Yield the blobs that have to go, the one that was used last at the end."""
    found = sorted(_files(blobs, lambda name: not name.startswith(PARTIAL)))
    total_bytes, now = sum(blob.size_bytes for blob in found), time.time()
    for blob in found:
        if total_bytes <= limits.max_bytes and now - blob.used <= limits.max_age_s:
            return
        total_bytes -= blob.size_bytes
        yield blob


def _leads_somewhere(ref: Path, blobs: Path) -> bool:
    """Whether a ref's blob is here; one that cannot be read leads nowhere."""
    if ref.name.startswith(PARTIAL):
        return True  # not yet a ref
    try:
        digest = str(json.loads(ref.read_bytes())["digest"])
        return (blobs / digest.removeprefix("sha256:")).exists()
    except (OSError, ValueError, TypeError, KeyError):
        return False


def _outdated(receipts: Path) -> list[_File]:
    """Return all receipts but the latest."""
    found = _files(receipts, lambda name: not name.startswith(PARTIAL))
    return sorted(found, key=lambda receipt: receipt.path)[:-_MAX_RECEIPTS]


def _remove_all(files: Iterator[_File] | list[_File]) -> int:
    removed_bytes = 0
    for file in files:
        with suppress(OSError):
            os.unlink(file.path)  # noqa: PTH108
            removed_bytes += file.size_bytes
    return removed_bytes
