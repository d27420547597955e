"""Fixtures for the tests of everything that can go wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.bad_input.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose build would succeed."""
    return Project(tmp_path)
