"""Small cache roots, and their inventories without the walk that makes them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from glowplug.archive.layer_writer import PackedLayer
from glowplug.archive.unpack import Layer
from glowplug.core.inventory import FileEntry, Inventory

LONG_NAME = "triton_poi_fused_" + "add_mul_" * 15 + "0.ttgir"
FILES = {
    "inductor/fxgraph/ab/key/content": b"graph" * 1000,
    "inductor/xx/ckernel.main.so": b"\x7fELF" * 2000,
    "triton/A/add.cubin": b"cubin" * 3000,
    f"triton/A/{LONG_NAME}": b"module" * 3000,
    f"triton/B/{LONG_NAME}": b"module" * 3000,
    "triton/B/add.json": b"{}",
}


def fill(root: Path, files: dict[str, bytes]) -> Inventory:
    """Write the files in their order; return what they are."""
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return inventory(files)


def inventory(files: dict[str, bytes]) -> Inventory:
    return Inventory(tuple(sorted(_entry(path, content) for path, content in files.items())))


def _entry(path: str, content: bytes) -> FileEntry:
    kind = path.partition("/")[0]
    return FileEntry(path, kind, len(content), hashlib.sha256(content).hexdigest(), path.endswith(".so"))


def to_unpack(layers: Iterable[PackedLayer]) -> list[Layer]:
    return [Layer(layer.descriptor, layer.path, layer.diff_id) for layer in layers]


def contents(root: Path) -> dict[str, bytes]:
    """Return every file below a folder, links as what they lead to."""
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}
