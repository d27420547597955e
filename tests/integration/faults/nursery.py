"""Many commands at once, or killed at random, at the price of a fork each. Run as a program; it answers in JSON.

    nursery.py crowd|kill fetch|store|update REFERENCE FOLDER COUNT

A process that has imported everything forks one child per command. What matters then fills most of a child's life, which is
where the kills are to fall. Child n puts its cache into FOLDER/out/n, and what it says into FOLDER/said/n; stores are
in FOLDER/stores.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import urllib3  # noqa: F401 - as the commands would import them

from glowplug import cli
from glowplug.boot import update, updater  # noqa: F401
from glowplug.cli import fetch, run  # noqa: F401
from glowplug.registry import client, mirrors, push  # noqa: F401

AT_ONCE = 4
# Neighbours in time, so that many find a store empty, and others full.
SHARE_A_STORE = 16
_UNDISTURBED = 3
# Stands for a server that compiles one graph and stops; it lives long enough to be found ready.
SERVER = 'folder="$GLOWPLUG_CACHE/inductor/fxgraph/new/$0"; mkdir -p "$folder"; head -c 50000 /dev/urandom > "$folder/content"; sleep 0.1'


def fetching(reference: str, folder: Path, number: int) -> list[str]:
    """Return the words of a fetch to a place of its own."""
    return ["fetch", reference, "--dest", str(folder / "out" / str(number)), "--python", sys.executable]


def sharing(reference: str, folder: Path, number: int) -> list[str]:
    """Return the words of a fetch through a store that others use at the same time."""
    return [
        *fetching(reference, folder, number),
        "--store",
        str(folder / "stores" / str(number // SHARE_A_STORE)),
    ]


def updating(reference: str, folder: Path, number: int) -> list[str]:
    """Return the words of a server that updates one of as many repositories as there are servers at once."""
    slot = number % AT_ONCE
    host = reference.partition("/")[0]  # something that accepts connections
    flags = ["--strict", "--ready", host, "--update", "pending" if slot == 0 else "direct"]
    words = ["run", reference.format(slot=slot), *fetching("", folder, number)[2:], *flags]
    return [*words, "--", "sh", "-c", SERVER, f"{folder.name}-{number}"]


COMMANDS: dict[str, Callable[[str, Path, int], list[str]]] = {
    "fetch": fetching,
    "store": sharing,
    "update": updating,
}
# Nobody else writes the tag, and to wait for others would take most of the time.
update._SETTLE_S = 0.0


def start(words: list[str], log: Path) -> int:
    """Start one command and return its process id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        said = os.open(log, os.O_WRONLY | os.O_CREAT)
        os.dup2(said, sys.stderr.fileno())
        code = cli.run(words)
    finally:
        os._exit(code)


def end_of(child: int) -> int:
    """Wait for a process and return its exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def crowd(begin: Callable[[int], int], count: int) -> dict[str, list[int]]:
    """Run so many commands at the same time."""
    children = [begin(number) for number in range(count)]
    return {"codes": [end_of(child) for child in children]}


def kill(begin: Callable[[int], int], count: int, folder: Path) -> dict[str, int]:
    """Kill so many commands, a few at a time, at instants spread over the time that one takes."""
    codes: dict[int, int] = {}
    number, seen_partial, takes_s = 0, 0, []
    for number in range(_UNDISTURBED):
        begun = time.monotonic()
        codes[number] = end_of(begin(number))
        takes_s.append(time.monotonic() - begun)
    span_s = sorted(takes_s)[_UNDISTURBED // 2] * AT_ONCE / 2
    while list(codes.values()).count(-signal.SIGKILL) < count:
        batch = {}
        for _ in range(AT_ONCE):
            number += 1
            due = time.monotonic() + random.uniform(0, span_s)
            batch[number] = (begin(number), due)
        for number, (child, due) in sorted(batch.items(), key=lambda item: item[1][1]):
            time.sleep(max(0.0, due - time.monotonic()))
            os.kill(child, signal.SIGKILL)  # or it has ended, and waits to be asked how
            codes[number] = end_of(child)
        seen_partial += any((folder / "out").glob(".glowplug.*"))
        number = max(batch)
    ends = list(codes.values())
    return {
        "killed": ends.count(-signal.SIGKILL),
        "finished": ends.count(0),
        "failed": len(ends) - ends.count(0) - ends.count(-signal.SIGKILL),
        "batches_with_leftovers": seen_partial,
    }


def main(task: str, what: str, reference: str, place: str, count: str) -> None:
    folder = Path(place)
    for name in ("out", "said"):
        (folder / name).mkdir(parents=True)

    def begin(number: int) -> int:
        return start(COMMANDS[what](reference, folder, number), folder / "said" / str(number))

    result = crowd(begin, int(count)) if task == "crowd" else kill(begin, int(count), folder)
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
