"""Fixtures for the tests of everything that can go wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.bad_input.artifact import Artifact
from integration.bad_input.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose build would succeed."""
    return Project(tmp_path)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """The artifact of such a project; built once, so copy it before you change it."""
    project = Project(tmp_path_factory.mktemp("built"))
    outcome = project.build()
    assert outcome.code == 0, outcome.stderr
    assert project.leftovers() == []
    return Artifact(project.cache)


@pytest.fixture
def artifact(built: Artifact, project: Project) -> Artifact:
    """A copy of that artifact, at ``oci:./cache`` of the project."""
    return built.copy_to(project.cache)
