"""Every reader that an artifact meets has to see the same tree as ours."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from oras.utils.fileio import extract_targz

from glowplug.archive.pack import pack, pack_files
from glowplug.archive.unpack import unpack
from unit.archive.caches import FILES, contents, fill, to_unpack


def gnu_tar(layer: Path, out: Path) -> None:
    subprocess.run(["tar", "-xzf", str(layer), "-C", str(out)], check=True)


def oras_py(layer: Path, out: Path) -> None:
    extract_targz(str(layer), str(out))


def standard_library(layer: Path, out: Path) -> None:
    with tarfile.open(layer, "r|gz") as archive:
        archive.extractall(out)


@pytest.mark.parametrize("reader", [gnu_tar, oras_py, standard_library])
def test_readers_agree(tmp_path: Path, reader: Callable[[Path, Path], None]) -> None:
    layers = pack(tmp_path / "root", fill(tmp_path / "root", FILES), tmp_path / "layers")
    layers = (pack_files({"record.json": b"{}"}, tmp_path / "layers"), *layers)
    (tmp_path / "theirs").mkdir()
    for layer in layers:
        reader(layer.path, tmp_path / "theirs")
    unpack(to_unpack(layers), tmp_path / "ours")
    theirs, ours = tmp_path / "theirs/glowplug", tmp_path / "ours"
    assert contents(theirs) == contents(ours) == FILES | {"record.json": b"{}"}
    assert tree(theirs) == tree(ours)


def tree(root: Path) -> dict[str, tuple[str, int]]:
    """Return each path's link target and mode."""
    return {
        str(path.relative_to(root)): (
            str(path.readlink()) if path.is_symlink() else "",
            0 if path.is_symlink() else path.stat().st_mode,
        )
        for path in root.rglob("*")
    }
