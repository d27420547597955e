"""The judgement on an archive's entries, before anything is created for them."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from threading import Lock

from glowplug.archive.format import FOLDER, link_target
from glowplug.archive.limits import Limits
from glowplug.archive.tar import Member, MemberType
from glowplug.core.oci import Descriptor
from glowplug.errors import IntegrityError

_BELOW = f"{FOLDER}/"
_NO_NAMES = frozenset({"", ".", ".."})


class Entries:
    """What all layers of one artifact have claimed so far. Safe for layers that are read in parallel."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = Lock()
        self._types: dict[str, MemberType] = {}
        self._links: dict[str, str] = {}
        self._entries = 0
        self._total_bytes = 0

    @property
    def total_bytes(self) -> int:
        """Uncompressed bytes so far."""
        return self._total_bytes

    def paths(self, *types: MemberType) -> list[str]:
        """Return the paths of these types, in the order of their claims."""
        return [path for path, type_ in self._types.items() if type_ in types]

    def meter(self, descriptor: Descriptor) -> Callable[[int], None]:
        """Return what counts a layer's uncompressed bytes by block, and raises IntegrityError at a limit."""
        limits = self._limits
        most = max(limits.ratio_floor_bytes, limits.ratio * descriptor.size_bytes)
        layer_bytes = 0

        def account(size_bytes: int) -> None:
            nonlocal layer_bytes
            layer_bytes += size_bytes
            with self._lock:
                self._total_bytes += size_bytes
                total_bytes = self._total_bytes
            if layer_bytes > most:
                raise IntegrityError(
                    f"layer {descriptor.digest} unpacks to over {limits.ratio} times its size"
                )
            if total_bytes > limits.total_bytes:
                raise IntegrityError(f"the artifact unpacks to more than {limits.total_bytes} bytes")

        return account

    def claim(self, member: Member, layer_folders: set[str]) -> None:
        """Judge an entry of a layer in which ``layer_folders`` have had theirs; a folder joins them.

        Raises:
            IntegrityError: it is not an entry that an artifact may hold at this place.
        """
        path = member.path
        folder, _, name = path.rpartition("/")
        # A folder's own path was judged when it was claimed.
        is_in_folder = folder in layer_folders
        self._require_safe(path, [name] if is_in_folder else path.split("/"))
        if member.size_bytes > self._limits.file_bytes:
            raise IntegrityError(f"{path!a} is larger than {self._limits.file_bytes} bytes")
        if path != FOLDER and not is_in_folder:
            raise IntegrityError(f"{path!a} comes before the folder that it is in")
        with self._lock:
            self._entries += 1
            count, known = self._entries, self._types.get(path)
            self._types.setdefault(path, member.type)
            if member.type is MemberType.LINK:
                self._links[path] = member.target
        if count > self._limits.entries:
            raise IntegrityError(f"the artifact holds more than {self._limits.entries} entries")
        # Every layer brings the folders that it needs; anything else exists once in an artifact.
        is_shared = known is member.type is MemberType.FOLDER and path not in layer_folders
        if known is not None and not is_shared:
            raise IntegrityError(f"{path!a} occurs twice")
        if member.type is MemberType.FOLDER:
            layer_folders.add(path)
        elif path == FOLDER:
            raise IntegrityError(f"'{FOLDER}' is no folder")

    def links(self) -> dict[str, str]:
        """Return every link's target, once all layers have been read.

        Raises:
            IntegrityError: a link does not lead straight to a file of the artifact.
        """
        if not self._types:
            raise IntegrityError("the artifact holds nothing")
        for path, target in self._links.items():
            goal = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
            if self._types.get(goal) is not MemberType.FILE or target != link_target(path, goal):
                raise IntegrityError(
                    f"the link {path!a} leads to {target[:200]!a}, which is no file of the artifact"
                )
        return dict(self._links)

    def _require_safe(self, path: str, parts: Sequence[str]) -> None:
        """Judge a path; ``parts`` are those that may not have been judged before."""
        limits = self._limits
        shown = path[:200]
        if not f"{path}/".startswith(_BELOW) or not _NO_NAMES.isdisjoint(parts):
            raise IntegrityError(f"an archive holds {shown!a}, which is not below '{FOLDER}/'")
        if not path.isprintable():
            raise IntegrityError(f"an archive holds {shown!a}, a name that cannot be shown")
        if path.count("/") >= limits.depth or len(path.encode()) > limits.path_bytes:
            raise IntegrityError(f"an archive holds {shown!a}, which is deeper or longer than a path may be")
        if any(len(part.encode()) > limits.name_bytes for part in parts):
            raise IntegrityError(f"an archive holds {shown!a}, which has a longer name than a file may have")
