"""An image as the engine describes it (Docker Engine API, ImageInspect), and what follows from that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from glowplug.errors import EngineError

_ROOT = (0, 0)
_ROOT_FOLDER = PurePosixPath("/")
_USER_HINT = "mend the USER line of its Dockerfile"
# Programs that are made to be process 1: they hand signals on and reap orphans.
_INITS = frozenset({"tini", "tini-static", "dumb-init", "docker-init", "catatonit", "s6-svscan", "init"})


@dataclass(frozen=True)
class Image:
    """An image that the engine has.

    Attributes:
        reference: as the spec names it.
        id: digest of its configuration.
        digest: ``repository@sha256:...`` where it was pulled from or pushed to; ``None`` for one that was only built.
        architecture: ``amd64``, ``arm64``, as Go calls it.
        size_bytes: of its unpacked layers.
        entrypoint: what every command is handed to.
        command: what it runs when it is told nothing else.
        workdir: where commands start.
        user: as whom, ``""`` for root: a name or a number, with or without a group.
        env: its own variables.
        labels: what else it says about itself.
    """

    reference: str
    id: str
    digest: str | None
    architecture: str
    size_bytes: int
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    workdir: PurePosixPath = _ROOT_FOLDER
    user: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """The digest that names exactly this image: its manifest's where it has one, else its configuration's."""
        return self.digest.partition("@")[2] if self.digest else self.id

    @property
    def has_init(self) -> bool:
        """Whether its entrypoint starts with an init process."""
        return bool(self.entrypoint) and PurePosixPath(self.entrypoint[0]).name in _INITS

    @property
    def expects_gpu(self) -> bool:
        """Whether it is made for NVIDIA's runtime, as every CUDA image is."""
        return self.env.get("NVIDIA_VISIBLE_DEVICES", "void") not in ("", "void", "none")


def image_from_json(reference: str, found: Mapping[str, Any]) -> Image:
    """Read what the engine says about an image."""
    config = found.get("Config") or {}
    return Image(
        reference=reference,
        id=found["Id"],
        digest=_own_digest(reference, found.get("RepoDigests") or ()),
        architecture=found.get("Architecture", ""),
        size_bytes=found.get("Size", 0),
        entrypoint=tuple(config.get("Entrypoint") or ()),
        command=tuple(config.get("Cmd") or ()),
        workdir=PurePosixPath(config.get("WorkingDir") or "/"),
        user=config.get("User") or "",
        env=dict(item.partition("=")[::2] for item in config.get("Env") or ()),
        labels=config.get("Labels") or {},
    )


def _own_digest(reference: str, digests: Sequence[str]) -> str | None:
    """Return the digest in the repository that the reference names; an image may have one in several."""
    name = reference.partition("@")[0]
    last = name.rpartition("/")[2]
    repository = name[: -len(last)] + last.partition(":")[0]
    own = [digest for digest in digests if digest.partition("@")[0] == repository]
    return next(iter((*own, *digests)), None)


def owner_ids(user: str, passwd: str, group: str) -> tuple[int, int]:
    """Return the user and group id behind a container's ``USER``, as the engine finds them.

    Args:
        user: ``name``, ``uid``, ``name:group``, ``uid:gid`` or ``""``.
        passwd: content of the image's ``/etc/passwd``, ``""`` where it has none.
        group: content of its ``/etc/group``.

    Raises:
        EngineError: a name is not in them.
    """
    if not user:
        return _ROOT
    name, _, group_name = user.partition(":")
    entry = _entry(passwd, name)
    if entry is None and not name.isdecimal():
        raise EngineError(f"the image's USER is {name}, who is not in its /etc/passwd", hint=_USER_HINT)
    uid, gid = entry or (int(name), 0)
    if group_name:
        found = _entry(group, group_name)
        if found is None and not group_name.isdecimal():
            raise EngineError(
                f"the image's USER is of the group {group_name}, which is not in its /etc/group",
                hint=_USER_HINT,
            )
        gid = found[0] if found else int(group_name)
    return uid, gid


def _entry(table: str, wanted: str) -> tuple[int, int] | None:
    """Return the two ids of a line ``name:x:id:id``; digits are always an id, and never a name."""
    for line in table.splitlines():
        name, _, number, other = (line.split(":") + [""] * 4)[:4]
        if number.isdecimal() and wanted == (number if wanted.isdecimal() else name):
            return int(number), int(other) if other.isdecimal() else 0
    return None
