from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from glowplug.caches.walk import take_inventory
from glowplug.core.inventory import FileEntry
from glowplug.errors import GlowplugError, IntegrityError


def fill(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def paths(root: Path) -> list[str]:
    return [entry.path for entry in take_inventory(root).files]


def test_lists_what_belongs_with_size_digest_and_mode(tmp_path: Path) -> None:
    fill(tmp_path, {"inductor/fxgraph/ab/key/content": b"graph", "inductor/xx/c.so": b"library"})
    (tmp_path / "inductor/xx/c.so").chmod(0o700)
    assert take_inventory(tmp_path).files == (
        FileEntry(
            "inductor/fxgraph/ab/key/content",
            "inductor",
            5,
            hashlib.sha256(b"graph").hexdigest(),
            executable=False,
            key="inductor/fxgraph/ab/key",
        ),
        FileEntry("inductor/xx/c.so", "inductor", 7, hashlib.sha256(b"library").hexdigest(), executable=True),
    )


def test_leaves_out_what_does_not_belong(tmp_path: Path) -> None:
    fill(
        tmp_path,
        {
            "triton/KEY/add.cubin": b"1",
            "triton/KEY/tmp.pid_1/add.ptx": b"1",
            "inductor/locks/a/b": b"",
            "inductor/xx/.1.2.tmp": b"1",
            "record.json": b"{}",
            "unknown/file": b"1",
        },
    )
    os.mkfifo(tmp_path / "triton/KEY/pipe")
    assert paths(tmp_path) == ["triton/KEY/add.cubin"]


def test_an_empty_cache_root_has_no_files(tmp_path: Path) -> None:
    assert paths(tmp_path) == []


def test_a_copy_at_another_path_has_the_same_inventory(tmp_path: Path) -> None:
    for place in ("here", "there/deeper"):
        root = tmp_path / place
        group = f'{{"child_paths": {{"add.cubin": "{root}/triton/KEY/add.cubin"}}}}'.encode()
        fill(root, {"triton/KEY/add.cubin": b"1", "triton/KEY/__grp__add.json": group})
    assert take_inventory(tmp_path / "here") == take_inventory(tmp_path / "there/deeper")


def test_a_link_to_a_file_inside_counts_as_its_content(tmp_path: Path) -> None:
    fill(tmp_path, {"triton/A/add.ptx": b"same"})
    (tmp_path / "triton/B").mkdir()
    (tmp_path / "triton/B/add.ptx").symlink_to("../A/add.ptx")
    first, second = take_inventory(tmp_path).files
    assert (first.sha256, first.size_bytes) == (second.sha256, second.size_bytes)


@pytest.mark.parametrize("target", ["/etc/hostname", "../../../outside", "../A", "missing"])
def test_a_link_elsewhere_is_refused(tmp_path: Path, target: str) -> None:
    root = fill(tmp_path / "root", {"triton/A/add.ptx": b"same", "triton/B/add.ptx": b"same"})
    (tmp_path / "outside").write_bytes(b"secret")
    (root / "triton/B/link").symlink_to(target)
    with pytest.raises(IntegrityError, match="symbolic link"):
        take_inventory(root)


def test_the_cache_root_itself_may_be_a_link(tmp_path: Path) -> None:
    fill(tmp_path / "real", {"triton/A/add.ptx": b"1"})
    (tmp_path / "real/triton/A/again.ptx").symlink_to("add.ptx")
    (tmp_path / "link").symlink_to("real")
    assert paths(tmp_path / "link") == ["triton/A/add.ptx", "triton/A/again.ptx"]


@pytest.mark.parametrize("name", [b"\xff", b"a\nb"])
def test_a_name_that_cannot_be_shown_is_refused(tmp_path: Path, name: bytes) -> None:
    fill(tmp_path, {"triton/A/add.ptx": b"1"})
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/triton/A/" + name)).write_bytes(b"1")
    with pytest.raises(IntegrityError, match="cannot be shown"):
        take_inventory(tmp_path)


def test_a_missing_cache_root_is_one_sentence(tmp_path: Path) -> None:
    shutil.rmtree(tmp_path)
    with pytest.raises(GlowplugError, match="cannot read the cache root"):
        take_inventory(tmp_path)
