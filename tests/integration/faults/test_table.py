"""Every row of the table, with the commands that it speaks of."""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from integration.bad_input.project import Outcome, Project, finished
from integration.faults.conftest import FILES, REPOSITORY
from integration.faults.settings import Setting, Stage, interpreter
from integration.faults.table import TABLE, Row, page

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "failure-behaviour.md"
SERVE = ["sh", "-c", 'test -e "$GLOWPLUG_CACHE/record.json" && echo warm || echo cold']


@dataclass
class Started:
    """A command that is under way, and what it was given."""

    setting: Setting
    process: subprocess.Popen[bytes]

    @property
    def outcome(self) -> Outcome:
        return finished(self.process)

    @property
    def reference(self) -> str:
        return f"{self.setting.host}/{REPOSITORY}:v3"


@contextlib.contextmanager
def started(row: Row, stage: Stage, command: str) -> Iterator[Started]:
    """Start one command in a setting of its own."""
    folder = stage.folder / command.replace(" ", "")
    folder.mkdir()
    project = Project(folder)
    with row.trouble(replace(stage, folder=folder)) as setting:
        words = [*command.split(), f"{setting.host}/{REPOSITORY}:v3", "--timeout", str(row.timeout_s)]
        if setting.is_place_named or command == "fetch":
            words += ["--dest", str(setting.destination)]
        if command != "fetch":
            words += ["--", *SERVE]
        process = subprocess.Popen(
            [*interpreter(setting), *words],
            cwd="/",
            env=project.environ(setting.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        yield Started(setting, process)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.fault)
def test_fault(row: Row, stage: Stage) -> None:
    with started(row, stage, "fetch") as fetch, started(row, stage, "run --strict") as strict:
        if row.code:
            with started(row, stage, "run") as run:
                started_cold(run.outcome, row)
                assert_nothing_half(run.setting, row)
            fetch.outcome.refused(row.code, row.says)
            strict.outcome.refused(row.code, row.says)
        else:
            for command in (fetch, strict):
                started_warm(command.outcome, row)
                assert row.holds(command.setting), command.setting.proxies
            assert_complete(fetch.setting.destination)
        for command in (fetch, strict):
            assert_nothing_half(command.setting, row)


def started_cold(outcome: Outcome, row: Row) -> None:
    (line,) = outcome.said("warning: ")
    assert row.says in line
    assert line.startswith("warning: cache refused: " if row.code == 20 else "warning: no cache: ")
    assert outcome.said("starting cold") == ["starting cold"]
    assert (outcome.code, outcome.stdout) == (0, "cold\n"), outcome.stderr
    assert not outcome.said("error: ")
    assert "Traceback" not in outcome.stderr


def started_warm(outcome: Outcome, row: Row) -> None:
    assert outcome.code == 0, outcome.stderr
    assert outcome.stdout == "warm\n" or "GLOWPLUG_CACHE=" in outcome.stdout
    assert not outcome.said("warning: ")
    notes = [line for line in outcome.stderr.splitlines() if row.says and row.says in line]
    assert len(notes) == bool(row.says), outcome.stderr


def assert_complete(destination: Path) -> None:
    for name, content in FILES.items():
        found = (destination / name).read_bytes()
        assert hashlib.sha256(found).digest() == hashlib.sha256(content).digest(), name


def assert_nothing_half(setting: Setting, row: Row) -> None:
    beside = [path.name for path in setting.destination.parent.iterdir()]
    assert [name for name in beside if name.startswith(".glowplug")] == []
    if row.code and setting.destination.exists():
        assert [path.name for path in setting.destination.iterdir()] == ["mine"]


def test_the_documentation_shows_this_table() -> None:
    assert page() in PAGE.read_text(), "python tests/integration/faults/table.py prints it"
