"""Fixtures for the tests of a supervised server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.boot.supervisors import Starter, Supervisor


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Starter]:
    """Start supervised commands in a folder of this test; none outlives it."""
    started: list[Supervisor] = []

    class Recorder(Starter):
        def __call__(self, *command, **options):  # type: ignore[no-untyped-def]
            started.append(super().__call__(*command, **options))
            return started[-1]

    yield Recorder(tmp_path)
    for supervisor in started:
        if supervisor.process.poll() is None:
            supervisor.process.kill()
            supervisor.process.wait()
