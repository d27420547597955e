"""Places to which nothing can be written, or should not be: reported, and left as they were."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from integration.bad_input.artifact import Artifact
from integration.bad_input.project import Project
from integration.services import find_program

# Where it counts, nothing is skipped.
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 and not os.environ.get("CI"), reason="mounting, and becoming another user, take root"
)


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A small file system of its own at ``folder``."""
    folder.mkdir()
    mount = find_program("mount", package="mount")
    subprocess.run([mount, "-t", "tmpfs", "-o", options, "glowplug-test", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run([find_program("umount", package="mount"), str(folder)], check=True)


def test_a_folder_that_holds_something(project: Project, artifact: Artifact) -> None:
    (project.folder / "out").mkdir()
    (project.folder / "out" / "file").write_text("mine")
    project.glowplug("fetch", "oci:./cache:v1", "--dest", "out").refused(2, "out", "not empty")
    assert [path.name for path in (project.folder / "out").iterdir()] == ["file"]
    assert project.leftovers() == []


def test_an_empty_folder_is_as_good_as_none(project: Project, artifact: Artifact) -> None:
    (project.folder / "out").mkdir()
    assert project.glowplug("fetch", "oci:./cache:v1", "--dest", "out").code == 0
    assert (project.folder / "out" / "record.json").exists()


@pytest.mark.parametrize("destination", ["out", "out/below", "out/below/further"])
def test_a_file_in_the_way(project: Project, artifact: Artifact, destination: str) -> None:
    (project.folder / "out").write_text("mine")
    project.glowplug("fetch", "oci:./cache:v1", "--dest", destination).refused(2, "out")
    assert (project.folder / "out").read_text() == "mine"
    assert project.leftovers() == []


@pytest.mark.parametrize("target", ["elsewhere", "nowhere", "out"])
def test_a_link(project: Project, artifact: Artifact, target: str) -> None:
    (project.folder / "elsewhere").mkdir()
    (project.folder / "out").symlink_to(target)
    project.glowplug("fetch", "oci:./cache:v1", "--dest", "out").refused(2, "out")
    assert (project.folder / "out").is_symlink()
    assert list((project.folder / "elsewhere").iterdir()) == []
    assert project.leftovers() == []


@pytest.mark.parametrize("destination", ["x" * 300, "/proc/glowplug/cache", "/dev/null/cache", "/"])
def test_a_place_that_cannot_be(project: Project, artifact: Artifact, destination: str) -> None:
    project.glowplug("fetch", "oci:./cache:v1", "--dest", destination).refused(2)
    assert project.leftovers() == []


@needs_root
def test_a_read_only_file_system(project: Project, artifact: Artifact) -> None:
    with mounted(project.folder / "mnt", "ro"):
        project.glowplug("fetch", "oci:./cache:v1", "--dest", "mnt/out").refused(2, "mnt/out", "Read-only")
    assert project.leftovers() == []


@needs_root
def test_a_file_system_without_room(project: Project, artifact: Artifact) -> None:
    with mounted(project.folder / "mnt", "size=64k") as folder:
        project.glowplug("fetch", "oci:./cache:v1", "--dest", "mnt/out").refused(1, "mnt/out", "is full")
        assert list(folder.iterdir()) == []


@needs_root
def test_a_file_system_from_which_nothing_runs(project: Project, artifact: Artifact) -> None:
    with mounted(project.folder / "mnt", "noexec") as folder:
        project.glowplug("fetch", "oci:./cache:v1", "--dest", "mnt/out").refused(2, "noexec")
        assert list(folder.iterdir()) == []


def test_a_limit_on_the_size_of_files(project: Project, artifact: Artifact) -> None:
    limit = (8192, 8192)
    outcome = project.glowplug(
        "fetch",
        "oci:./cache:v1",
        "--dest",
        "out",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    outcome.refused(1, "out", "too large")
    assert not (project.folder / "out").exists()
    assert project.leftovers() == []


@needs_root
def test_a_layout_folder_that_may_only_be_read(project: Project, artifact: Artifact) -> None:
    before = sorted(path.name for path in artifact.folder.rglob("*"))
    with read_only(artifact.folder):
        project.build("--version", "v2").refused(11, "oci:", "cache", "Read-only")
        assert not project.model_ran
        assert project.leftovers() == []
        fetched = project.glowplug("fetch", "oci:./cache:v1", "--dest", "out")
        assert fetched.code == 0, fetched.stderr
        built = project.build()  # it is there already
        assert built.code == 0, built.stderr
    assert sorted(path.name for path in artifact.folder.rglob("*")) == before


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Let nobody write below ``folder``, root included."""
    mount = find_program("mount", package="mount")
    subprocess.run([mount, "--bind", str(folder), str(folder)], check=True)
    try:
        subprocess.run([mount, "-o", "remount,bind,ro", str(folder)], check=True)
        yield
    finally:
        subprocess.run([find_program("umount", package="mount"), str(folder)], check=True)


@pytest.mark.parametrize(
    ("path", "words"),
    [("model.py", "Not a directory"), (".", "is no OCI layout"), ("model.py/cache", "model.py/cache")],
)
def test_a_place_that_is_no_layout(project: Project, path: str, words: str) -> None:
    before = sorted(project.folder.iterdir())
    outcome = project.build("--artifact", f"oci:{path}")
    outcome.refused(2, words)
    assert not project.model_ran
    assert sorted(project.folder.iterdir()) == before
    assert project.leftovers() == []


@needs_root
def test_a_layout_folder_without_room(project: Project) -> None:
    with mounted(project.folder / "mnt", "size=16k,nr_inodes=3") as folder:
        project.build("--artifact", "oci:mnt/cache").refused(10, "mnt/cache", "No space left")
        assert not project.model_ran
        assert [path.name for path in folder.rglob(".*")] == []


def test_a_limit_on_the_size_of_a_builds_files(project: Project) -> None:
    outcome = project.build(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512)))
    outcome.refused(1, "too large")
    assert project.untouched()


@needs_root
def test_a_temporary_folder_without_room(project: Project) -> None:
    project.tmp.rmdir()
    with mounted(project.tmp, "size=32k"):
        project.build().refused(1, "No space left")
        assert project.untouched()
