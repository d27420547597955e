"""An OCI image layout folder as a repository (image-spec 1.1, "OCI Image Layout Specification").

Blobs are immutable and named after their digest, so only ``index.json`` is ever contended: it is replaced by
rename, under a lock, and entries of other tools are kept as they are. A kill at any instant
leaves the old state, and at most a dotted file, which a later writer removes.
"""

from __future__ import annotations

import collections
import errno
import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from glowplug.core.integrity import fill, verified
from glowplug.core.oci import (
    INDEX_TYPE,
    MANIFEST_TYPE,
    Descriptor,
    Document,
    decode,
    digest_of,
    encode,
)
from glowplug.core.reference import LayoutRepository, is_digest
from glowplug.errors import (
    DeniedError,
    GlowplugError,
    IntegrityError,
    NotFoundError,
    UnavailableError,
    UsageError,
)
from glowplug.registry.source import ignore

TAG_ANNOTATION = "org.opencontainers.image.ref.name"
CHUNK_BYTES = 1024 * 1024

_MARKER = "oci-layout"
_MARKER_CONTENT = encode({"imageLayoutVersion": "1.0.0"})
_INDEX = "index.json"
_EMPTY_INDEX: dict[str, Any] = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": []}
_LOCK = "index.json.lock"
# The lock is held for one small write; whoever holds it longer hangs.
_LOCK_TIMEOUT_S = 30.0
_LOCK_POLL_S = 0.01
# `.<name>.<eight digits>`, as `_replacing` names them. A file that is being written changes all the time.
_TEMPORARY = re.compile(r"\.(oci-layout|index\.json|[0-9a-f]{64})\.[0-9a-f]{8}")
_ABANDONED_S = 24 * 3600.0
_OTHER_FOLDER = "name a new folder, or an OCI layout"


class Layout:
    """A layout folder that can be read, and is created by the first write."""

    def __init__(self, repository: LayoutRepository) -> None:
        self._name = str(repository)
        self._root = Path(repository.path)
        self._is_swept = False

    def resolve(self, selector: str) -> Document:
        """See ``Source.resolve``; a digest also finds the children of an index, which nothing lists."""
        entries = self._index()["manifests"]
        if is_digest(selector):
            found = next((e for e in entries if e.get("digest") == selector), {"digest": selector})
        else:
            found = next((e for e in reversed(entries) if _tag_of(e) == selector), {})
        digest = found.get("digest")
        if not isinstance(digest, str) or not is_digest(digest) or not self.has_blob(digest):
            if not self._root.is_dir():
                raise NotFoundError(
                    f"{self._name} holds no {selector}", hint=f"there is no folder {self._root}"
                )
            raise NotFoundError(
                f"{self._name} holds no {selector}", hint="its tags: " + (", ".join(self.tags()) or "none")
            )
        with self._reporting(f"read {digest} in"):
            raw = self._blob(digest).read_bytes()
        if digest_of(raw) != digest:
            raise IntegrityError(
                f"{digest} in {self._name} holds other bytes: their digest is {digest_of(raw)}"
            )
        return Document(str(found.get("mediaType") or _media_type(raw)), raw)

    def copy_blob(
        self, descriptor: Descriptor, file: IO[bytes], on_bytes: Callable[[int], None] = ignore
    ) -> None:
        """See ``Source.copy_blob``."""
        fill(file, self._chunks(descriptor), descriptor, on_bytes)

    def _chunks(self, descriptor: Descriptor) -> Iterator[bytes]:
        try:
            with self._blob(descriptor.digest).open("rb") as file:
                yield from iter(lambda: file.read(CHUNK_BYTES), b"")
        except FileNotFoundError as error:
            raise NotFoundError(f"{self._name} holds no blob {descriptor.digest}") from error
        except OSError as error:
            raise self._broken(f"read {descriptor.digest} in", error) from error

    def tags(self) -> list[str]:
        """See ``Source.tags``."""
        return sorted({tag for entry in self._index()["manifests"] if (tag := _tag_of(entry))})

    def referrers(self, subject: str, artifact_type: str) -> None:
        """See ``Source.referrers``: a folder lists nothing by itself."""

    def check_push(self) -> None:
        """See ``Sink.check_push``: creates the folder and writes into it."""
        self._create()
        with self._reporting("write to"), _replacing(self._root / _MARKER) as file:
            file.write(_MARKER_CONTENT)

    def has_blob(self, digest: str) -> bool:
        """See ``Sink.has_blob``."""
        return self._blob(digest).is_file()

    def put_blob(self, descriptor: Descriptor, path: Path) -> None:
        """See ``Sink.put_blob``; a damaged copy is written again."""
        self._create()
        target = self._blob(descriptor.digest)
        with suppress(IntegrityError, NotFoundError):
            collections.deque(verified(self._chunks(descriptor), descriptor), maxlen=0)
            return
        with self._reporting("write to"), path.open("rb") as source, _replacing(target) as file:
            for chunk in verified(iter(lambda: source.read(CHUNK_BYTES), b""), descriptor):
                file.write(chunk)

    def put_document(self, document: Document, tag: str | None) -> None:
        """See ``Sink.put_document``."""
        self._create()
        with self._reporting("write to"):
            with _replacing(self._blob(document.digest)) as file:
                file.write(document.raw)
            if tag is not None:
                self._point(tag, document)

    def _point(self, tag: str, document: Document) -> None:
        entry = document.descriptor({TAG_ANNOTATION: tag}).to_json()
        with self._locked():
            index = self._index()
            index["manifests"] = [e for e in index["manifests"] if _tag_of(e) != tag] + [entry]
            with _replacing(self._root / _INDEX) as file:
                file.write(encode(index))

    def _create(self) -> None:
        """Make the folder a layout unless it is one; a folder that holds anything else is left alone."""
        with self._reporting("create"):
            self._root.mkdir(parents=True, exist_ok=True)
            if (self._root / _MARKER).exists():
                self._sweep()
                return
            # What another process may have made of a new layout by now; dotted names are its temporary files.
            ours = {_MARKER, _INDEX, _LOCK, "blobs"}
            foreign = [
                p.name for p in self._root.iterdir() if p.name not in ours and not p.name.startswith(".")
            ]
            if foreign:
                raise UsageError(f"{self._root} holds {foreign[0]} and is no OCI layout", hint=_OTHER_FOLDER)
            (self._root / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
            with self._locked():
                if not (self._root / _INDEX).exists():
                    with _replacing(self._root / _INDEX) as file:
                        file.write(encode(_EMPTY_INDEX))
            with _replacing(self._root / _MARKER) as file:
                file.write(_MARKER_CONTENT)

    def _sweep(self) -> None:
        """Remove what killed writers left, once per writer."""
        if self._is_swept:
            return
        self._is_swept = True
        for folder in (self._root, self._root / "blobs" / "sha256"):
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if _TEMPORARY.fullmatch(entry.name) and _is_abandoned(entry):
                        with suppress(OSError):
                            os.unlink(entry.path)  # noqa: PTH108

    @contextmanager
    def _locked(self) -> Iterator[None]:
        give_up = time.monotonic() + _LOCK_TIMEOUT_S
        with (self._root / _LOCK).open("ab") as lock:
            while not _try_lock(lock):
                if time.monotonic() > give_up:
                    raise UnavailableError(
                        f"another process has locked {self._name} for {_LOCK_TIMEOUT_S:g} s"
                    )
                time.sleep(_LOCK_POLL_S)
            yield  # closing the file unlocks it

    def _index(self) -> dict[str, Any]:
        """Read ``index.json``; a folder that does not exist is a repository to which nothing was pushed."""
        try:
            raw = (self._root / _INDEX).read_bytes()
        except FileNotFoundError:
            return {**_EMPTY_INDEX, "manifests": []}
        except OSError as error:
            raise self._broken("read", error) from error
        try:
            index = decode(raw)
        except ValueError as error:
            raise IntegrityError(f"{self._root / _INDEX} is not JSON") from error
        entries = index.get("manifests") if isinstance(index, dict) else None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise IntegrityError(f"{self._root / _INDEX} is not an OCI image index")
        return {**index}

    def _blob(self, digest: str) -> Path:
        if not is_digest(digest):
            raise UsageError(f"'{digest}' is not a sha256 digest")
        return self._root / "blobs" / "sha256" / digest.removeprefix("sha256:")

    @contextmanager
    def _reporting(self, verb: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._broken(verb, error) from error

    def _broken(self, verb: str, error: OSError) -> GlowplugError:
        problem = f"cannot {verb} {self._name}: {error.strerror}"
        if error.errno in (errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG):
            return UsageError(problem, hint=_OTHER_FOLDER)
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return DeniedError(problem, hint="give this user the right to it, or name another folder")
        return UnavailableError(problem, hint="look at the disk and its free space, or name another folder")


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """Write a file that appears at ``path`` complete, on disk, or not at all."""
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)  # the rename itself must survive a power cut before anything refers to the file
    finally:
        os.close(folder)


def _is_abandoned(entry: os.DirEntry[str]) -> bool:
    try:
        return time.time() - entry.stat(follow_symlinks=False).st_mtime > _ABANDONED_S
    except FileNotFoundError:  # it has got its name
        return False


def _try_lock(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _tag_of(entry: dict[str, Any]) -> str:
    annotations = entry.get("annotations")
    tag = annotations.get(TAG_ANNOTATION) if isinstance(annotations, dict) else None
    return tag if isinstance(tag, str) else ""


def _media_type(raw: bytes) -> str:
    """Tell an index from a manifest where no descriptor does."""
    try:
        body = decode(raw)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        return ""
    stated = body.get("mediaType")
    if isinstance(stated, str):
        return stated
    return INDEX_TYPE if "manifests" in body else MANIFEST_TYPE
