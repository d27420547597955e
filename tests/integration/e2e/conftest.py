"""Artifacts that several tests look at: each is built once, and nobody may change it."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from glowplug.host.facts import gather_facts
from integration.e2e.commands import Done, Shell
from integration.e2e.projects import NETWORK, SQUARE, Project, write_project

# Neither may be needed for a layout folder. Not an ImportError, which someone might expect and go on without it.
_BLOCKER = """
import sys


class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("oras", "docker"):
            raise RuntimeError(f"{name} is not to be imported")


sys.meta_path.insert(0, Blocker())
"""


@dataclass(frozen=True)
class Built:
    """A build's project, the layout folder that it published into, and the command that did it."""

    project: Project
    layout: Path
    done: Done

    @property
    def digest(self) -> str:
        digest: str = self.done.json["digest"]
        return digest

    @property
    def tag(self) -> str:
        """The tag of this machine's artifact."""
        tag: str = self.done.json["reference"].rpartition(":")[2]
        return tag


@pytest.fixture(scope="session")
def workspace() -> Iterator[Path]:
    """A folder that any user may enter, unlike pytest's own: the replay runs as another one."""
    with tempfile.TemporaryDirectory(prefix="glowplug-tests-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(scope="session")
def without_oras(workspace: Path) -> Path:
    """A folder for PYTHONPATH that makes importing oras or docker an error."""
    folder = workspace / "blocker"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_BLOCKER)
    return folder


@pytest.fixture(scope="session")
def network(workspace: Path, without_oras: Path) -> Built:
    """A network with C++ kernels and two inputs, built as in CI, without oras and docker."""
    project = write_project(
        workspace / "network",
        NETWORK,
        run={"python": "model:answer", "inputs": [{"batch": 4}, {"batch": 7}]},
    )
    shell = Shell(workspace / "network-shell")
    env = shell.environ(CI="true", PYTHONPATH=str(without_oras))
    done = shell.glowplug("build", "-f", project.spec, "--json", env=env)
    return Built(project, project.folder / "cache", done)


@pytest.fixture(scope="session")
def square(workspace: Path) -> Built:
    """A model without kernels, in a git repository whose tag `v1.4` is its version."""
    project = write_project(
        workspace / "square", SQUARE, model={"name": "tiny", "version": {"git": "describe"}}
    )
    git = ["git", "-C", str(project.folder), "-c", "user.name=Robot", "-c", "user.email=robot@example.org"]
    for arguments in (
        ["init", "--quiet"],
        ["add", "model.py", "glowplug.yaml"],
        ["commit", "--quiet", "--message", "A model"],
        ["tag", "v1.4"],
    ):
        subprocess.run([*git, *arguments], check=True)
    done = Shell(workspace / "square-shell").glowplug("build", "-f", project.spec, "--json")
    return Built(project, project.folder / "cache", done)


@dataclass(frozen=True)
class Targets:
    """A layout folder with two targets of one version: this machine's, and one with another instruction set."""

    layout: Path
    other_isa: str
    done: Done


@pytest.fixture(scope="session")
def two_targets(workspace: Path, square: Built) -> Targets:
    """The artifact of ``square``, and a second one beside it that pretends another CPU."""
    folder = workspace / "two-targets"
    shutil.copytree(square.layout, folder)
    # A lower instruction set where there is one, since the replay has to run here too.
    other_isa = "avx2" if gather_facts().target.device_arch != "avx2" else "default"
    done = Shell(workspace / "two-targets-shell").glowplug(
        "build", "-f", square.project.spec, "--artifact", f"oci:{folder}",
        "--pretend-target", f"device_arch={other_isa}", "--json",
    )  # fmt: skip
    return Targets(folder, other_isa, done)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A shell of this test's own."""
    return Shell(tmp_path / "shell")
