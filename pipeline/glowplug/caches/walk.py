"""Reading a cache root from disk."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from glowplug.caches.kind import Kind
from glowplug.caches.table import ARTIFACT_ROOT, KINDS, relocation
from glowplug.core.inventory import FileEntry, Inventory
from glowplug.errors import GlowplugError, IntegrityError

_CHUNK_BYTES = 1024 * 1024
_FOR_ARTIFACT = relocation(ARTIFACT_ROOT)


def take_inventory(cache_root: Path) -> Inventory:
    """List and hash what belongs to a cache below ``cache_root``.

    Digests and sizes are those that the files have in an artifact (``ARTIFACT_ROOT``), so the inventories of
    a capture and of its copy at any other path are equal. What belongs to no kind is not listed.

    Raises:
        IntegrityError: a symbolic link does not lead to a file inside, or a file name cannot be shown.
        GlowplugError: a file cannot be read.
    """
    try:
        root = Path(os.path.realpath(cache_root, strict=True))
        entries = [entry for kind in KINDS.values() for entry in _kind_entries(root, kind)]
    except OSError as error:
        raise GlowplugError(
            f"cannot read the cache root {cache_root}: {error.strerror} ({error.filename})"
        ) from error
    return Inventory(tuple(sorted(entries)))


def _kind_entries(root: Path, kind: Kind) -> Iterator[FileEntry]:
    folder = root / kind.name
    if not folder.is_dir():
        return
    for path in _files(folder, kind, ""):
        full = folder / path
        status = full.stat()
        size_bytes, sha256 = _measure(full, f"{kind.name}/{path}")
        key = kind.key(path)
        yield FileEntry(
            path=f"{kind.name}/{path}",
            kind=kind.name,
            size_bytes=size_bytes,
            sha256=sha256,
            executable=bool(status.st_mode & stat.S_IXUSR),
            key=f"{kind.name}/{key}" if key else "",
        )


def _files(folder: Path, kind: Kind, prefix: str) -> Iterator[str]:
    """Yield the files that belong, relative to the kind's folder; sockets and the like are no cache."""
    with os.scandir(folder / prefix) as found:
        for item in found:
            path = prefix + item.name
            if not kind.belongs(path):
                continue
            if not path.isprintable():  # nor are the bytes of a name that is no UTF-8
                raise IntegrityError(f"the cache file {path!a} has a name that cannot be shown")
            if item.is_symlink():
                _require_inside(folder.parent, Path(item.path))
                yield path
            elif item.is_dir():
                yield from _files(folder, kind, path + "/")
            elif item.is_file():
                yield path


def _require_inside(root: Path, link: Path) -> None:
    target = Path(os.path.realpath(link))
    if not (target.is_relative_to(root) and target.is_file()):
        raise IntegrityError(
            f"{link} is a symbolic link to {link.readlink()}, which is no file of this cache",
            hint="capture into an empty folder that nothing else writes to",
        )


def _measure(file: Path, path: str) -> tuple[int, str]:
    """Return size in bytes and sha256 of the content that the file has in an artifact."""
    rewrite = _FOR_ARTIFACT(path)
    if rewrite is not None:
        content = rewrite(file.read_bytes())
        return len(content), hashlib.sha256(content).hexdigest()
    digest, size_bytes = hashlib.sha256(), 0
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
            size_bytes += len(chunk)
    return size_bytes, digest.hexdigest()
