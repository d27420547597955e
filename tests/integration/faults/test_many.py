"""Two hundred fetches at once, and two hundred that are killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from glowplug.registry.source import open_source
from integration.bad_input.project import Project
from integration.faults.conftest import FILES, REPOSITORY
from integration.faults.settings import Stage
from integration.services import RegistryService

NURSERY = Path(__file__).with_name("nursery.py")
COUNT = 200


def run_nursery(task: str, stage: Stage, folder: Path) -> dict[str, Any]:
    """Return what it answers, in the last line after those of the fetches."""
    folder.mkdir()
    command = [
        sys.executable,
        str(NURSERY),
        task,
        f"{stage.registry}/{REPOSITORY}:v3",
        str(folder),
        str(COUNT),
    ]
    done = subprocess.run(
        command, env=Project(stage.folder).environ(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def is_complete(destination: Path) -> bool:
    """Whether every file is there with every byte."""
    return (destination / "record.json").is_file() and all(
        (destination / name).read_bytes() == content for name, content in FILES.items()
    )


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_a_crowd(stage: Stage, registry: RegistryService) -> None:
    folder = stage.folder / "crowd"
    answer = run_nursery("crowd", stage, folder)
    assert answer["codes"] == [0] * COUNT
    assert set(names_in(folder)) == {str(number) for number in range(COUNT)}
    assert all(is_complete(destination) for destination in folder.iterdir())
    with open_source(registry.repository(REPOSITORY)) as source:
        assert source.resolve("v3").raw


def test_killed_at_any_instant(stage: Stage) -> None:
    folder = stage.folder / "killed"
    answer = run_nursery("kill", stage, folder)
    assert answer["killed"] >= COUNT
    assert answer["failed"] == 0, answer
    # Some came through, and some were hit while they worked: the kills were spread over the whole.
    assert answer["finished"] > 3, answer
    assert answer["batches_with_leftovers"] > 0, answer
    names = names_in(folder)
    hidden = [name for name in names if name.startswith(".")]
    assert all(name.startswith(".glowplug.") and name.endswith(".partial") for name in hidden)
    assert all(is_complete(folder / name) for name in names if name not in hidden)
    project = Project(stage.folder / "last")
    last = project.glowplug("fetch", f"{stage.registry}/{REPOSITORY}:v3", "--dest", str(folder / "last"))
    assert last.code == 0, last.stderr
    assert [name for name in names_in(folder) if name.startswith(".")] == []
    assert is_complete(folder / "last")
