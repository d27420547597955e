"""Fixtures for all tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

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


# Modules of integration/e2e that build what no other one looks at.
_ALONE = ("test_cog.py", "test_command.py", "test_private_registry.py", "test_update.py")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Where tests run in several processes, keep those of one folder of ``integration`` together.

    They share a registry, an engine, built artifacts.
    """
    return _ByFolder(config, log)


class _ByFolder(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        path = PurePath(nodeid.partition("::")[0])
        if path.parts[1] == "integration" and path.name not in _ALONE:
            return str(path.parent)
        return str(path)
