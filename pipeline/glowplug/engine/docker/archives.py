"""Folders on their way into a container and out of it: the tar streams of put_archive and get_archive.

What comes out was written by a program that is not ours, so an entry becomes a file only inside the new folder, as our
own user, and with no more than permission bits.
"""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from glowplug.errors import EngineError, ModelRunError

_CHUNK_BYTES = 1024 * 1024
_MAX_DEPTH = 64
_END = bytes(2 * tarfile.BLOCKSIZE)


@dataclass(frozen=True)
class Access:
    """Who may do what with a path: user id, group id and permission bits."""

    uid: int
    gid: int
    mode: int


@dataclass(frozen=True)
class Limits:
    """How much a run may leave in one folder: far more than any real cache has.

    Attributes:
        entries: files, links and folders.
        total_bytes: of all files together.
    """

    entries: int = 250_000
    total_bytes: int = 64 * 1024**3


LIMITS = Limits()


def pack_folder(folder: Path, name: PurePosixPath, access_to: Callable[[Path], Access]) -> Iterator[bytes]:
    """Yield a tar of ``folder`` and all below it, called ``name`` in it; sockets and the like are left out.

    Args:
        folder: what is packed.
        name: relative path that it gets.
        access_to: says what each path gets.
    """
    for path in _walk(folder):
        status = path.lstat()
        entry = tarfile.TarInfo(str(name / path.relative_to(folder)))
        access = access_to(path)
        entry.uid, entry.gid, entry.mode = access.uid, access.gid, access.mode
        entry.mtime = int(status.st_mtime)
        if stat.S_ISDIR(status.st_mode):
            entry.type = tarfile.DIRTYPE
            yield _header(entry)
        elif stat.S_ISLNK(status.st_mode):
            entry.type, entry.linkname = tarfile.SYMTYPE, str(path.readlink())
            yield _header(entry)
        elif stat.S_ISREG(status.st_mode):
            entry.size = status.st_size
            yield _header(entry)
            yield from _content(path, entry.size)
    yield _END


def _walk(folder: Path) -> Iterator[Path]:
    """Yield a folder, then what is in it: parents before children, links not followed."""
    yield folder
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)
        else:
            yield path


def _header(entry: tarfile.TarInfo) -> bytes:
    return entry.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _content(path: Path, size_bytes: int) -> Iterator[bytes]:
    """Yield exactly as much as the header promised, even if the file changes meanwhile, and fill up its block."""
    left = size_bytes
    with path.open("rb") as file:
        while left and (chunk := file.read(min(left, _CHUNK_BYTES))):
            left -= len(chunk)
            yield chunk
    yield bytes(left + -size_bytes % tarfile.BLOCKSIZE)


def unpack_folder(chunks: Iterator[bytes], folder: Path, limits: Limits = LIMITS) -> None:
    """Write the folder in a tar stream to ``folder``, which does not exist yet.

    Links that lead out of the folder, devices, sockets and pipes are left out: nothing of ours has a use for them.

    Raises:
        EngineError: the stream ends too early.
        ModelRunError: it is no folder, holds more than ``limits``, or entries that no file system could have.
    """
    folder.mkdir(mode=0o755)
    unpacking = _Unpacking(folder, limits)
    try:
        with tarfile.open(fileobj=_Stream(chunks), mode="r|", bufsize=_CHUNK_BYTES) as archive:
            for number, entry in enumerate(archive):
                if number > limits.entries:
                    raise _refused(folder, f"more than {limits.entries} files")
                unpacking.add(archive, entry)
    except tarfile.TarError as error:
        raise EngineError(
            f"the Docker engine broke off while it copied {folder.name} out of a container: {error}",
            hint="'docker info' shows whether it is well; then build again",
        ) from error
    # Last, so that nothing was written through them.
    unpacking.link()


class _Unpacking:
    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder = folder
        self._left_bytes = limits.total_bytes
        self._limits = limits
        self._folders: set[PurePosixPath] = set()
        self._files: set[PurePosixPath] = set()
        self._links: dict[PurePosixPath, str] = {}

    def add(self, archive: tarfile.TarFile, entry: tarfile.TarInfo) -> None:
        path = self._checked(entry.name)
        if not self._folders:  # the engine names the folder itself first
            if not entry.isdir() or len(path.parts) != 1:
                raise _refused(self._folder, "something else than a folder in its place")
            self._folders.add(path)
            return
        if path.parent not in self._folders or path in self._folders | self._files:
            raise _refused(self._folder, f"{entry.name!a}, which has no folder or exists twice")
        target = self._here(path)
        if entry.isdir():
            target.mkdir(mode=stat.S_IRWXU | entry.mode & 0o055)
            self._folders.add(path)
        elif entry.issym():
            if _stays_inside(path, entry.linkname):
                self._links[path] = entry.linkname
        elif entry.islnk():
            self._add_hard_link(path, entry)
        elif entry.isreg():
            self._left_bytes -= entry.size
            if self._left_bytes < 0:
                raise _refused(self._folder, f"more than {self._limits.total_bytes} bytes")
            self._write(archive.extractfile(entry), target, stat.S_IRUSR | stat.S_IWUSR | entry.mode & 0o755)
            self._files.add(path)

    def link(self) -> None:
        for path, target in self._links.items():
            self._here(path).symlink_to(target)

    def _here(self, path: PurePosixPath) -> Path:
        return self._folder.joinpath(*path.parts[1:])

    def _checked(self, name: str) -> PurePosixPath:
        path = PurePosixPath(name)
        if not path.parts or path.is_absolute() or ".." in path.parts or len(path.parts) > _MAX_DEPTH:
            raise _refused(self._folder, f"a path {name!a}")
        return path

    def _add_hard_link(self, path: PurePosixPath, entry: tarfile.TarInfo) -> None:
        original = self._checked(entry.linkname)
        # The other name may lie outside what was asked for, and then there is no content here.
        if original in self._files:
            os.link(self._here(original), self._here(path))
            self._files.add(path)

    @staticmethod
    def _write(source: IO[bytes] | None, target: Path, mode: int) -> None:
        number = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with open(number, "wb") as file:  # noqa: PTH123 (a descriptor)
            while source is not None and (chunk := source.read(_CHUNK_BYTES)):
                file.write(chunk)


def _stays_inside(path: PurePosixPath, target: str) -> bool:
    """Return whether a link leads to a place in the folder, whatever other links it goes through.

    Going up is allowed only at the start, where it goes through real folders; going down is then harmless, because
    every link on the way stays inside too.
    """
    parts = PurePosixPath(target).parts
    ups = sum(1 for part in parts if part == "..")
    return (
        bool(parts)
        and not target.startswith("/")
        and all(part == ".." for part in parts[:ups])
        and ups < len(path.parent.parts)
    )


def _refused(folder: Path, what: str) -> ModelRunError:
    return ModelRunError(
        f"the model's container left {what} in {folder.name}",
        hint="see what the model does in its cache folder",
    )


class _Stream(io.RawIOBase):
    """Chunks as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        super().__init__()
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return b""
            self._rest = memoryview(chunk)
        taken = self._rest[: size if size >= 0 else len(self._rest)]
        self._rest = self._rest[len(taken) :]
        return bytes(taken)


def read_file(chunks: Iterator[bytes], limit_bytes: int = _CHUNK_BYTES) -> str:
    """Return the text of the one file in a tar stream, ``""`` when it is no file, or a large one."""
    with tarfile.open(fileobj=_Stream(chunks), mode="r|") as archive:
        entry = archive.next()
        content = (
            archive.extractfile(entry) if entry and entry.isreg() and entry.size <= limit_bytes else None
        )
        return content.read().decode(errors="replace") if content else ""
