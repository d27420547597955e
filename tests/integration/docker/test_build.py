"""A model that is captured in its own image, proved in another container of it, and started in a third."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.docker.daemon import DockerService
from integration.e2e.commands import Shell
from integration.e2e.projects import write_spec


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A shell of this test's own."""
    return Shell(tmp_path / "shell")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with the source of the Cog image."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "cog.yaml").write_text("build: {python_version: '3.11'}\nrun: predict.py:Predictor\n")
    return folder


def test_a_cog_image(docker: DockerService, cog_image: str, folder: Path, shell: Shell) -> None:
    run = {"cog": ".", "image": cog_image, "docker": {"network": "host"}, "inputs": [{"size": 8}]}
    write_spec(folder, {"run": run})
    env = shell.environ(**docker.environ)
    done = shell.glowplug("build", "-f", folder / "glowplug.yaml", "--json", env=env)
    proof = done.json["proof"]
    assert proof["warm"]["work"]["builds"] == 0
    (folder / "stderr").write_text(done.stderr)
    assert docker.containers() == []
