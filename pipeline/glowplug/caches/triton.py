"""Triton's folder: for each kernel its IR, its binary, and a group file that names them by absolute path."""

from __future__ import annotations

import json

from glowplug.caches.kind import Kind
from glowplug.core.inventory import Rewrite


def _belongs(path: str) -> bool:
    # "tmp.*" is a file before its rename (triton/runtime/cache.py, put), "lock" what older versions leave;
    # bytecode is tied to its source's mtime, which unpacking does not keep.
    name = path.rpartition("/")[2]
    return not (name.startswith("tmp.") or name.endswith(".lock") or name in ("lock", "__pycache__"))


def _is_group(path: str) -> bool:
    # One for each compiled kernel (compiler/compiler.py); the launchers' libraries have none.
    name = path.rpartition("/")[2]
    return name.startswith("__grp__") and name.endswith(".json")


def _relocation(path: str, folder: str) -> Rewrite | None:
    if not _is_group(path):
        return None
    parent = path.rpartition("/")[0]
    return lambda content: _rewrite_group(content, f"{folder}/{parent}" if parent else folder)


def _rewrite_group(content: bytes, folder: str) -> bytes:
    """Point a group file at the files beside it.

    Triton puts a group and its children into one folder (runtime/cache.py, put and put_group), so the old
    root need not be known, and no group can ever lead out of its folder. A group that cannot be read stays as
    it is: Triton takes it for a miss.
    """
    try:
        group = json.loads(content)
        children = {str(name): str(place) for name, place in group["child_paths"].items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return content
    moved = {name: f"{folder}/{place.rpartition('/')[2]}" for name, place in children.items()}
    return json.dumps(group | {"child_paths": moved}).encode()


TRITON = Kind("triton", "TRITON_CACHE_DIR", _belongs, _is_group, relocation=_relocation)
