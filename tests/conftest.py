"""Fixtures for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.services import RegistryService


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
