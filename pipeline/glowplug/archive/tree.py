"""The files of a cache root as they are being created, in a folder that nobody else can enter yet."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from glowplug.archive.format import FOLDER
from glowplug.archive.limits import Limits
from glowplug.archive.tar import Member
from glowplug.core.inventory import Relocation
from glowplug.errors import IntegrityError

_FOLDER_MODE = 0o755
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Tree:
    """Creates what entries that were judged describe. Paths are the archive's, beginning with its folder.

    Args:
        root: what the archive's folder becomes.
        relocation: how files that hold absolute paths are rewritten.
        limits: how large such a file may be.
    """

    def __init__(self, root: Path, relocation: Relocation, limits: Limits) -> None:
        self._root = str(root)
        self._relocation = relocation
        self._limits = limits

    def folder(self, path: str) -> None:
        """Create a folder, unless an earlier layer did."""
        place = self._place(path)
        try:
            os.mkdir(place)  # noqa: PTH102 -- thousands of strings, no Path for each
        except FileExistsError:
            return
        os.chmod(place, _FOLDER_MODE)  # noqa: PTH101

    def file(self, member: Member, pieces: Iterable[bytes | memoryview]) -> None:
        """Create a file from its content; the mode is 0644 or 0755 whatever the umask."""
        place = self._place(member.path)
        rewrite = self._relocation(member.path[len(FOLDER) + 1 :])
        if rewrite is not None:
            if member.size_bytes > self._limits.rewritten_bytes:
                raise IntegrityError(f"'{member.path}' is larger than a file of paths may be")
            pieces = [rewrite(b"".join(pieces))]
        descriptor = os.open(place, _NEW_FILE, 0o600)
        try:
            for piece in pieces:
                _write(descriptor, piece)
            os.fchmod(descriptor, 0o755 if member.executable else 0o644)
        finally:
            os.close(descriptor)

    def link(self, path: str, target: str) -> None:
        """Create a symbolic link."""
        place = self._place(path)
        os.symlink(target, place)  # noqa: PTH211

    def _place(self, path: str) -> str:
        return self._root + path[len(FOLDER) :]


def _write(descriptor: int, data: bytes | memoryview) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
