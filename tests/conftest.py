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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of one folder of ``integration`` in one process, where tests run in several.

    They share a registry, an engine, built artifacts. A module that shares nothing names a group of its own.
    """
    integration = Path(__file__).parent / "integration"
    for item in items:
        if item.path.is_relative_to(integration) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.relative_to(integration).parts[0]))
