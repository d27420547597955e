"""What Triton itself makes of an unpacked cache, with kernels for a GPU that is not there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from glowplug.archive.pack import pack
from glowplug.archive.unpack import unpack
from glowplug.caches.table import ARTIFACT_ROOT, environment, relocation
from glowplug.caches.walk import take_inventory
from glowplug.core.inventory import Inventory
from unit.archive.caches import contents, to_unpack

KERNELS = Path(__file__).with_name("triton_kernels.py")


def compile_kernels(cache_root: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(KERNELS)],
        env=os.environ | environment(cache_root),
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.split()


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("captured") / "root"
    assert compile_kernels(root) == ["miss", "miss"]
    return root


def restore(captured: Path, tmp_path: Path) -> tuple[Inventory, Path]:
    """Pack, take the original away, unpack at another path."""
    inventory = take_inventory(captured)
    layers = pack(captured, inventory, tmp_path / "layers", relocation(ARTIFACT_ROOT))
    destination = tmp_path / "elsewhere/cache"
    unpack(to_unpack(layers), destination, relocation=relocation(destination))
    return inventory, destination


def test_triton_finds_every_kernel_at_another_path(captured: Path, tmp_path: Path) -> None:
    aside = captured.with_name("aside")
    captured.rename(aside)
    try:
        inventory, destination = restore(aside, tmp_path)
        assert compile_kernels(destination) == ["hit", "hit"]
        assert not captured.exists()
    finally:
        aside.rename(captured)
    assert not inventory.difference(take_inventory(destination))
    old = str(captured).encode()
    assert [path for path, content in contents(destination).items() if old in content] == []


def test_without_relocation_triton_compiles_again(captured: Path, tmp_path: Path) -> None:
    inventory = take_inventory(captured)
    layers = pack(captured, inventory, tmp_path / "layers", relocation(ARTIFACT_ROOT))
    unpack(to_unpack(layers), tmp_path / "cache")
    assert compile_kernels(tmp_path / "cache") == ["miss", "miss"]


def test_a_restored_cache_packs_to_the_same_artifact(captured: Path, tmp_path: Path) -> None:
    inventory, destination = restore(captured, tmp_path)
    again = take_inventory(destination)
    assert again == inventory
    first = pack(captured, inventory, tmp_path / "first", relocation(ARTIFACT_ROOT))
    second = pack(destination, again, tmp_path / "second", relocation(ARTIFACT_ROOT))
    assert [layer.descriptor for layer in first] == [layer.descriptor for layer in second]


def test_the_capture_holds_what_the_other_tests_are_about(captured: Path) -> None:
    paths = [entry.path for entry in take_inventory(captured).files]
    assert sum(path.endswith(".cubin") for path in paths) == 2
    assert sum("/__grp__" in path for path in paths) == 2
    assert max(len(path.rpartition("/")[2]) for path in paths) > 100
