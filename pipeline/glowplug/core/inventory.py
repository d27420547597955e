"""What a cache root holds: files by kind, size and digest, and the keys that compare two captures."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from glowplug.errors import IntegrityError

Rewrite = Callable[[bytes], bytes]
"""Turns one file's content into the content that it has below another cache root."""

Relocation = Callable[[str], "Rewrite | None"]
"""For a path relative to the cache root: how that file is rewritten, ``None`` if it holds no such path."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


def in_place(_path: str) -> Rewrite | None:
    """Return the relocation that rewrites nothing."""
    return None


class FileEntry(NamedTuple):
    """One file of a cache root, as it stands in the artifact.

    Attributes:
        path: POSIX path relative to the cache root, beginning with its kind: ``triton/ABC/add.cubin``.
        kind: the kind of cache that it belongs to.
        size_bytes: its size.
        sha256: 64 hex digits over its content.
        executable: whether its owner may execute it.
        key: what identifies it in another capture of the same thing; empty where that is the path.
    """

    path: str
    kind: str
    size_bytes: int
    sha256: str
    executable: bool
    key: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the file as it stands in ``inventory.json``."""
        out: dict[str, Any] = {
            "path": self.path,
            "kind": self.kind,
            "size_bytes": self.size_bytes,
            "sha256": self.sha256,
            "executable": self.executable,
        }
        return out | ({"key": self.key} if self.key else {})


class KindSummary(NamedTuple):
    """How much of one kind there is."""

    files: int
    size_bytes: int


class Difference(NamedTuple):
    """Keys that only the later inventory holds, and keys that only the earlier one holds; both sorted."""

    added: tuple[str, ...]
    removed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


class Inventory(NamedTuple):
    """All files of a cache root, sorted by path."""

    files: tuple[FileEntry, ...]

    @property
    def size_bytes(self) -> int:
        """The size of all files together."""
        return sum(entry.size_bytes for entry in self.files)

    def by_kind(self) -> dict[str, KindSummary]:
        """Return files and bytes of every kind that occurs, sorted by its name."""
        out: dict[str, KindSummary] = {}
        for kind in sorted({entry.kind for entry in self.files}):
            sizes = [entry.size_bytes for entry in self.files if entry.kind == kind]
            out[kind] = KindSummary(len(sizes), sum(sizes))
        return out

    def key_set(self) -> frozenset[str]:
        """Return what identifies the entries; unlike digests, equal for two captures of the same thing."""
        return frozenset(entry.key or entry.path for entry in self.files)

    def difference(self, later: Inventory) -> Difference:
        """Return the keys that ``later`` gained and lost against this inventory."""
        before, after = self.key_set(), later.key_set()
        return Difference(tuple(sorted(after - before)), tuple(sorted(before - after)))

    def to_json(self) -> dict[str, Any]:
        """Return the document ``inventory.json``."""
        return {"files": [entry.to_json() for entry in self.files]}


def inventory_from_json(value: Any) -> Inventory:
    """Read what ``Inventory.to_json`` wrote.

    Raises:
        IntegrityError: it is something else, or it names a path twice or out of order.
    """
    files = value.get("files") if isinstance(value, Mapping) else None
    if not isinstance(files, list):
        raise IntegrityError("an inventory lists no files")
    entries = tuple(_entry(item) for item in files)
    paths = [entry.path for entry in entries]
    if paths != sorted(set(paths)):
        raise IntegrityError("an inventory names a file twice, or out of order")
    return Inventory(entries)


def _entry(value: Any) -> FileEntry:
    if not isinstance(value, Mapping):
        raise IntegrityError("an inventory lists something that is no file")
    path, kind, size_bytes = value.get("path"), value.get("kind"), value.get("size_bytes")
    sha256, executable, key = value.get("sha256"), value.get("executable"), value.get("key", "")
    if not isinstance(path, str) or not _is_inside(path):
        raise IntegrityError(f"an inventory lists a file at {path!r}, which is no place in a cache root")
    if not isinstance(kind, str) or not isinstance(key, str) or not isinstance(executable, bool):
        raise IntegrityError(f"an inventory describes '{path}' without its kind or its mode")
    if not isinstance(size_bytes, int) or isinstance(size_bytes, bool) or size_bytes < 0:
        raise IntegrityError(f"an inventory describes '{path}' without its size")
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise IntegrityError(f"an inventory describes '{path}' without its sha256")
    return FileEntry(path, kind, size_bytes, sha256, executable, key)


def _is_inside(path: str) -> bool:
    return all(part not in ("", ".", "..") for part in path.split("/"))
