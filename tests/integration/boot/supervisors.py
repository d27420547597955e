"""Start supervised commands, and look at what happens to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import glowplug

PROGRAM = Path(__file__).with_name("supervised.py")
_GIVE_UP_S = 60.0


def until(condition: Callable[[], Any]) -> Any:
    """Wait for something that will be true, and return it."""
    give_up = time.monotonic() + _GIVE_UP_S
    while not (found := condition()):
        assert time.monotonic() < give_up, "it never happened"
        time.sleep(0.01)
    return found


def state_of(pid: int) -> str:
    """Return the state of a process: ``S``, ``T``, ``Z``...; empty when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def children_of(pid: int) -> list[int]:
    """Return the children of a process, dead ones included."""
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]


@dataclass
class Supervisor:
    """A running ``supervised.py``."""

    process: subprocess.Popen[bytes]
    folder: Path

    @property
    def events(self) -> list[list[Any]]:
        """What the callbacks wrote until now."""
        file = self.folder / "events"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def names(self) -> list[str]:
        """The names of the events, each repetition left out."""
        return list(dict.fromkeys(event[0] for event in self.events))

    @property
    def ending(self) -> dict[str, Any]:
        """What ``supervise`` returned."""
        name, ending = self.events[-1]
        assert name == "ending"
        return dict(ending)

    @property
    def errors(self) -> str:
        """What it wrote to stderr."""
        return (self.folder / "stderr").read_text()

    @property
    def child(self) -> int:
        """The process that it started."""
        pids: list[int] = until(lambda: children_of(self.process.pid))
        return pids[0]

    def wrote(self, name: str) -> str:
        """Return the text of a file in the command's folder, once it is there and a whole line."""
        file = self.folder / name
        text: str = until(lambda: file.exists() and file.read_text().endswith("\n") and file.read_text())
        return text.strip()

    def await_event(self, name: str) -> None:
        """Wait until a callback was called."""
        until(lambda: name in self.names)

    def end(self) -> int:
        """Wait for the end and return the exit status."""
        return self.process.wait(_GIVE_UP_S)


@dataclass
class Starter:
    """Starts supervisors, each in a session of its own and without a terminal."""

    folder: Path

    def __call__(self, *command: str, before: tuple[str, ...] = (), **options: Any) -> Supervisor:
        """Supervise a command; ``before`` are words that start the supervisor."""
        given = json.dumps({"events": str(self.folder / "events"), **options})
        with (self.folder / "stdout").open("wb") as out, (self.folder / "stderr").open("wb") as err:
            process = subprocess.Popen(
                [*before, sys.executable, str(PROGRAM), given, *command],
                env={**os.environ, "PYTHONPATH": str(Path(glowplug.__file__).parents[1])},
                cwd=self.folder,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        return Supervisor(process, self.folder)
