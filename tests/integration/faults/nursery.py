"""Many fetches at once, or killed at random, at the price of a fork each. Run as a program; it answers in JSON.

    nursery.py crowd REFERENCE FOLDER COUNT
    nursery.py kill REFERENCE FOLDER COUNT

A process that has imported everything forks one child per fetch. What matters then fills most of a child's life, which is
where the kills are to fall.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import urllib3  # noqa: F401 - as the fetches would import them

from glowplug import cli
from glowplug.cli import fetch  # noqa: F401
from glowplug.registry import client, mirrors  # noqa: F401

_AT_ONCE = 4
_UNDISTURBED = 3


def start(reference: str, destination: Path) -> int:
    """Start one fetch and return its process id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        code = cli.run(["fetch", reference, "--dest", str(destination), "--python", sys.executable])
    finally:
        os._exit(code)


def end_of(child: int) -> int:
    """Wait for a process and return its exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def crowd(reference: str, folder: Path, count: int) -> dict[str, list[int]]:
    """Run so many fetches at the same time, into one folder."""
    children = [start(reference, folder / str(number)) for number in range(count)]
    return {"codes": [end_of(child) for child in children]}


def kill(reference: str, folder: Path, count: int) -> dict[str, int]:
    """Kill so many fetches into one folder, a few at a time, at instants spread over the time that one takes."""
    codes: dict[int, int] = {}
    number, seen_partial, takes_s = 0, 0, []
    for number in range(_UNDISTURBED):
        begun = time.monotonic()
        codes[number] = end_of(start(reference, folder / str(number)))
        takes_s.append(time.monotonic() - begun)
    span_s = sorted(takes_s)[_UNDISTURBED // 2] * _AT_ONCE / 2
    while list(codes.values()).count(-signal.SIGKILL) < count:
        batch = {}
        for _ in range(_AT_ONCE):
            number += 1
            due = time.monotonic() + random.uniform(0, span_s)
            batch[number] = (start(reference, folder / str(number)), due)
        for number, (child, due) in sorted(batch.items(), key=lambda item: item[1][1]):
            time.sleep(max(0.0, due - time.monotonic()))
            os.kill(child, signal.SIGKILL)  # or it has ended, and waits to be asked how
            codes[number] = end_of(child)
        seen_partial += any(folder.glob(".glowplug.*"))
        number = max(batch)
    ends = list(codes.values())
    return {
        "killed": ends.count(-signal.SIGKILL),
        "finished": ends.count(0),
        "failed": len(ends) - ends.count(0) - ends.count(-signal.SIGKILL),
        "batches_with_leftovers": seen_partial,
    }


if __name__ == "__main__":
    _, task, reference, folder, count = sys.argv
    result = {"crowd": crowd, "kill": kill}[task](reference, Path(folder), int(count))
    sys.stdout.write(json.dumps(result) + "\n")
