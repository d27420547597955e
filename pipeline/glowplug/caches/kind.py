"""What Glowplug knows of one family of cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from glowplug.core.inventory import FileEntry, Rewrite


def _path_is_key(_path: str) -> str:
    return ""


def _holds_no_path(_path: str, _folder: str) -> Rewrite | None:
    return None


class Kind(NamedTuple):
    """One family of cache. Paths that its functions take are POSIX and relative to the kind's own folder.

    Attributes:
        name: the kind, and its folder below the cache root.
        env: the environment variable by which the library finds that folder.
        belongs: whether a file, or a folder with all that is in it, is worth keeping.
        is_result: whether a file is the result of a compilation, unlike what every start leaves.
        key: what identifies a file in another capture of the same thing; empty where that is its path.
        relocation: for a path and the kind's new absolute folder, how that file is rewritten; ``None`` where
            it holds no absolute path.
    """

    name: str
    env: str
    belongs: Callable[[str], bool]
    is_result: Callable[[str], bool]
    key: Callable[[str], str] = _path_is_key
    relocation: Callable[[str, str], Rewrite | None] = _holds_no_path

    def is_entry(self, entry: FileEntry) -> bool:
        """Whether the file of an inventory is the result of a compilation of this kind."""
        return entry.kind == self.name and self.is_result(entry.path.removeprefix(f"{self.name}/"))
