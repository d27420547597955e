"""Fixtures for all tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.services import RegistryService

# As in an activated environment, however pytest was started: Cog's server starts whatever `python` means.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryService]:
    """A real registry that serves anyone; tests share it, so each names its own repository."""
    service = RegistryService(tmp_path_factory.mktemp("registry"))
    service.start()
    yield service
    service.stop()


@pytest.fixture(scope="session")
def private_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryService]:
    """A real registry that asks for ``user`` and ``password`` (HTTP Basic) before it shows anything."""
    service = RegistryService(tmp_path_factory.mktemp("private-registry"), "robot", "correct horse")
    service.start()
    yield service
    service.stop()
