from __future__ import annotations

import json
from pathlib import Path

import pytest

from glowplug.caches.table import KINDS, environment, relocation
from glowplug.core.inventory import FileEntry


def test_every_library_is_pointed_below_the_cache_root() -> None:
    assert environment(Path("/srv/cache")) == {
        "TORCHINDUCTOR_CACHE_DIR": "/srv/cache/inductor",
        "TRITON_CACHE_DIR": "/srv/cache/triton",
    }


def test_names_in_the_table_are_the_kinds_own() -> None:
    assert all(kind.name == name for name, kind in KINDS.items())


@pytest.mark.parametrize(
    ("kind", "path", "belongs"),
    [
        ("inductor", "fxgraph/ab/key/content", True),
        ("inductor", "xx/ckernel.main.so", True),
        ("inductor", "xx/ckernel.best_config", True),
        ("inductor", "cache/0123", True),
        ("inductor", "locks", False),
        ("inductor", "fxgraph/locks", False),
        ("inductor", "xx/ckernel.lock", False),
        ("inductor", "xx/.123.456.tmp", False),
        ("inductor", "xx/gemm.so.error", False),
        ("inductor", "xx/kernel_CxxBuild", False),
        ("inductor", "triton/0/tmp.5c1f", False),
        ("inductor", "precompiled_headers", False),
        ("inductor", "xx/__pycache__", False),
        ("triton", "KEY/add.cubin", True),
        ("triton", "KEY/__grp__add.json", True),
        ("triton", "KEY/__triton_launcher.cpython-311-x86_64-linux-gnu.so", True),
        ("triton", "KEY/tmp.pid_7_0a1b", False),
        ("triton", "KEY/lock", False),
        ("triton", "KEY.lock", False),
        ("triton", "KEY/__pycache__", False),
    ],
)
def test_what_belongs(kind: str, path: str, *, belongs: bool) -> None:
    assert KINDS[kind].belongs(path) is belongs


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("fxgraph/ab/key/content", "fxgraph/ab/key"),
        ("aotautograd/key/content", "aotautograd/key"),
        ("xx/ckernel.main.so", ""),
        ("fxgraph", ""),
    ],
)
def test_inductor_keys(path: str, key: str) -> None:
    assert KINDS["inductor"].key(path) == key


@pytest.mark.parametrize(
    ("kind", "path", "counts"),
    [
        ("inductor", "inductor/fxgraph/ab/key/content", True),
        ("inductor", "inductor/xx/cprobe.so", False),
        ("triton", "triton/KEY/__grp__add.json", True),
        ("triton", "triton/KEY/cuda_utils.so", False),
        ("triton", "inductor/fxgraph/ab/key/content", False),
    ],
)
def test_which_files_show_that_something_was_compiled(kind: str, path: str, *, counts: bool) -> None:
    entry = FileEntry(path, path.partition("/")[0], 1, "0" * 64, executable=False)
    assert KINDS[kind].is_entry(entry) is counts


def test_a_triton_group_points_to_the_files_beside_it() -> None:
    group = {"child_paths": {"add.cubin": "/old/root/triton/KEY/add.cubin"}, "later": 1}
    rewrite = relocation("/new")("triton/KEY/__grp__add.json")
    assert rewrite is not None
    assert json.loads(rewrite(json.dumps(group).encode())) == {
        "child_paths": {"add.cubin": "/new/triton/KEY/add.cubin"},
        "later": 1,
    }


def test_a_triton_group_never_leads_elsewhere() -> None:
    rewrite = relocation("/new")("triton/KEY/__grp__add.json")
    assert rewrite is not None
    moved = rewrite(b'{"child_paths": {"add.cubin": "/home/other/secrets/../add.cubin"}}')
    assert json.loads(moved)["child_paths"] == {"add.cubin": "/new/triton/KEY/add.cubin"}


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"child_paths": []}', b"\xff", b"[" * 100_000]
)
def test_an_unreadable_group_stays_a_miss(content: bytes) -> None:
    rewrite = relocation("/new")("triton/KEY/__grp__add.json")
    assert rewrite is not None
    assert rewrite(content) == content


@pytest.mark.parametrize(
    "path",
    ["triton/KEY/add.json", "inductor/KEY/__grp__add.json", "record.json", "triton", "unknown/__grp__a.json"],
)
def test_other_files_hold_no_path(path: str) -> None:
    assert relocation("/new")(path) is None
