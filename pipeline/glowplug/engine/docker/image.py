"""What the engine says about an image (Docker Engine API, ImageInspect), and whose its files are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from glowplug.core.image import ModelImage, run_settings
from glowplug.errors import EngineError

_ROOT = (0, 0)
_USER_HINT = "mend the USER line of its Dockerfile"


def image_from_json(reference: str, found: Mapping[str, Any]) -> ModelImage:
    """Read what the engine says about an image."""
    return ModelImage(
        reference=reference,
        id=found["Id"],
        digest=_own_digest(reference, found.get("RepoDigests") or ()),
        architecture=found.get("Architecture", ""),
        size_bytes=found.get("Size", 0),
        **run_settings(found.get("Config")),
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
