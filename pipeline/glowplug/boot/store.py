"""The node's store: blobs by digest, and which digest a tag pointed to last. Shared by containers through a volume.

A blob gets its name when its digest was verified, by one rename, and never changes after that. So nothing here is ever
half there, whoever is killed when; locks only keep two containers from downloading the same blob, and where a file system
does not lock (NFS) that is all that happens. What torch uses is unpacked from here for each container anew, into a
folder of its own: no container's writes reach another one, and every byte is verified once more on its way.

    blobs/sha256/<hex>      manifests, indexes, configs and layers
    refs/<sha256>.json      {"reference", "digest"}, named by the reference
    receipts/<time>-*.json  what was put in place here, when, and where it came from; for people
    locks/<two digits>      what downloads lock; blobs share them, so that their number is fixed
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from glowplug.boot.collection import PARTIAL, Limits, collect, read_limits
from glowplug.boot.receipt import Receipt
from glowplug.core.integrity import fill
from glowplug.core.oci import Descriptor, digest_of
from glowplug.core.reference import is_digest
from glowplug.errors import IntegrityError, UsageError
from glowplug.report.console import Console

STORE_VARIABLE = "GLOWPLUG_STORE"
# Past this, waiting costs more than the bandwidth that it would save.
LOCK_WAIT_S = 120.0
_POLL_S = 0.05
_CHUNK_BYTES = 1024 * 1024
DEFAULT = Limits()


class Store:
    """One folder of blobs, refs and receipts. All methods may be called from several threads and processes at once."""

    def __init__(self, root: Path, limits: Limits = DEFAULT) -> None:
        self.root = root
        self._limits = limits

    def prepare(self) -> bool:
        """Make the folders, and return whether the store can be written; a read-only one still serves.

        Raises:
            UsageError: the place is no folder and cannot become one.
        """
        try:
            for name in ("blobs/sha256", "refs", "receipts", "locks"):
                (self.root / name).mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise UsageError(
                f"the store {self.root} is not a folder", hint=f"correct {STORE_VARIABLE}"
            ) from error
        except OSError:
            return False
        return os.access(self.root / "blobs" / "sha256", os.W_OK)

    def blob(self, digest: str) -> Path:
        """Return where a blob is, or would be."""
        if not is_digest(digest):
            raise IntegrityError(f"'{digest}' is no digest")
        return self.root / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def copy_blob(self, descriptor: Descriptor, file: IO[bytes], on_bytes: Callable[[int], None]) -> bool:
        """Make ``file`` hold a blob, if it is here and whole; what is copied is checked, not what lies here.

        One that is not what its name says was damaged by its disk or by someone else; it is removed.

        Raises:
            OSError: the file cannot be written.
        """
        path = self.blob(descriptor.digest)
        try:
            # Links have no business here: the store may be writable by other users.
            stored = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fill(file, _read(stored), descriptor, on_bytes)
        except IntegrityError:
            with contextlib.suppress(OSError):
                path.unlink()
            return False
        finally:
            os.close(stored)
        _mark_used(path)
        return True

    def read_document(self, digest: str) -> bytes | None:
        """Return a manifest's or an index's bytes, if they are here and whole."""
        path = self.blob(digest)
        try:
            raw = path.read_bytes()
        except OSError:
            return None
        if digest_of(raw) != digest:
            return None
        _mark_used(path)
        return raw

    def add(self, digest: str, chunks: Iterable[bytes]) -> None:
        """Store a blob whose digest the caller has verified.

        Raises:
            OSError: there is no room, or no right to write.
        """
        _write(self.blob(digest), chunks)

    def remember(self, reference: str, digest: str) -> None:
        """Write down what a tag points to, for when the registry cannot be asked; failing to is no harm."""
        if self.recall(reference) == digest:
            return
        with contextlib.suppress(OSError):
            _write(self._ref(reference), [json.dumps({"reference": reference, "digest": digest}).encode()])

    def file_receipt(self, receipt: Receipt) -> None:
        """Write down that an artifact was put in place on this node; failing to is no harm."""
        with contextlib.suppress(OSError):
            _write(self.root / "receipts" / receipt.file_name(), [json.dumps(receipt.to_json()).encode()])

    def recall(self, reference: str) -> str | None:
        """Return the digest that a tag pointed to when it was last asked for."""
        try:
            entry = json.loads(self._ref(reference).read_bytes())
        except (OSError, ValueError):
            return None
        digest = entry.get("digest") if isinstance(entry, dict) else None
        return digest if isinstance(digest, str) and is_digest(digest) else None

    @contextmanager
    def single_flight(self, digest: str, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
        """Keep others from downloading the same blob meanwhile, as far as the file system can."""
        try:
            lock = os.open(self.root / "locks" / digest[-2:], os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError:
            yield
            return
        try:
            _wait_for(lock, wait_s)
            yield
        finally:
            os.close(lock)

    def collect(self) -> int:
        """Keep the store within its limits; return the bytes removed. Readers are not disturbed."""
        return collect(self.root, self._limits)

    def _ref(self, reference: str) -> Path:
        return self.root / "refs" / f"{hashlib.sha256(reference.encode()).hexdigest()}.json"


def open_store(
    root: str | os.PathLike[str] | None, environ: Mapping[str, str], console: Console
) -> Store | None:
    """Return the store that was named, with the environment's limits; ``None`` when none was."""
    return Store(Path(root).absolute(), read_limits(environ, console)) if root else None


def _read(stored: int) -> Iterator[bytes]:
    """Yield what a disk still gives of a file."""
    with contextlib.suppress(OSError):
        while chunk := os.read(stored, _CHUNK_BYTES):
            yield chunk


def _write(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a file that appears complete, on disk, and readable for everyone, or not at all."""
    file, name = tempfile.mkstemp(prefix=PARTIAL, dir=path.parent)
    try:
        with os.fdopen(file, "wb") as stream:
            for chunk in chunks:
                stream.write(chunk)
            stream.flush()
            os.fsync(stream.fileno())
            os.fchmod(stream.fileno(), 0o644)
        os.rename(name, path)  # noqa: PTH104
    except BaseException:
        os.unlink(name)  # noqa: PTH108
        raise


def _mark_used(path: Path) -> None:
    with contextlib.suppress(OSError):  # a read-only store, in which nothing is collected either
        os.utime(path)


def _wait_for(lock: int, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                return  # a file system without locks
            time.sleep(_POLL_S)
        else:
            return
