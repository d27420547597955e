"""A program that supervises a command: ``python supervised.py OPTIONS COMMAND...``, with OPTIONS as JSON.

Its callbacks append a line each to the file ``events``, and then do what the options want: hang, raise, run a process.
The last line is the ending.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from glowplug.boot import companion, readiness, supervise
from glowplug.errors import UnavailableError
from glowplug.report.console import Console


def behave(how):
    if how == "hang":
        time.sleep(3600)
    elif how == "raise":
        raise RuntimeError("a bug")
    elif how == "fail":
        raise UnavailableError("the registry is down", hint="start it")
    elif how == "exit":
        sys.exit(5)
    elif how == "process":  # its status is asked for long after its end, and somebody else reaps
        process = subprocess.Popen(["sh", "-c", "exit 7"])
        time.sleep(0.3)
        return [process.wait()]
    elif how == "end it":
        return True
    return None


def main(options, command):
    def note(*line):
        with Path(options["events"]).open("a") as file:
            file.write(json.dumps(line) + "\n")

    def callback(name):
        def called(*deadline):
            note(name, *[moment > time.monotonic() for moment in deadline])
            result = behave(options.get(name))
            note(f"{name} done", *([result] if isinstance(result, list) else []))
            return result is True

        return called

    readiness.ASSUMED_READY_S = options.get("assumed_s", readiness.ASSUMED_READY_S)
    companion._TICK_S = 0.1
    if options.get("crash"):
        supervise.reap_adopted = lambda *_: 1 / 0
    names = [name for name in companion.Events._fields if name.startswith("on_")]
    ending = supervise.supervise(
        command,
        os.environ,
        readiness.Readiness(options.get("url"), tuple(options["tcp"]) if "tcp" in options else None),
        options.get("grace_s", 60.0),
        companion.Events(
            Console(), **{name: callback(name) for name in names if name not in options.get("without", ())}
        ),
    )
    note("ending", ending._asdict())
    os._exit(ending.status)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])
