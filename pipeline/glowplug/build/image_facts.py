"""The facts of a machine as a container sees them: it may have another torch, libc, and other GPUs than we do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from glowplug.build.zipapp import write_zipapp
from glowplug.build.zipapp_image import ZIPAPP_NAME
from glowplug.core.facts import Facts, facts_from_json
from glowplug.core.oci import decode
from glowplug.engine.launch import Engine, Launch
from glowplug.engine.log import last_lines
from glowplug.errors import EngineError, IntegrityError

_TIMEOUT_S = 120.0
# An entrypoint may print what it likes, so the answer goes to a file.
_PROGRAM = """\
import runpy, sys
_, zipapp, answer, *sys.argv[1:] = sys.argv
sys.stdout = open(answer, "w")
runpy.run_path(zipapp, run_name="__main__")
"""


def gather_facts_in_image(engine: Engine, here: Path, overrides: Mapping[str, str]) -> Facts:
    """Run ``glowplug facts`` in a container of the model's image.

    Args:
        engine: what runs it.
        here: a folder to make.
        overrides: target fields to pretend, by name.

    Raises:
        EngineError: the image has no Python that can run it.
        UsageError: an override names no field of a target.
    """
    answer = here / "answer"
    answer.mkdir(parents=True)
    write_zipapp(here / ZIPAPP_NAME)
    workspace = engine.workspace(here)
    launch = Launch(
        (
            *(engine.python, "-c", _PROGRAM, str(workspace.seen(here / ZIPAPP_NAME))),
            str(workspace.seen(answer / "facts.json")),
            *("facts", "--json", "--python", engine.python),
            *(f"--pretend-target={name}={value}" for name, value in overrides.items()),
        ),
        {},
        workspace,
        (answer,),
        here.with_name(f"{here.name}.log"),
        _TIMEOUT_S,
    )
    status = engine.run(launch, lambda _elapsed_s: None)
    try:
        return facts_from_json(decode((answer / "facts.json").read_bytes()))
    except (OSError, ValueError, IntegrityError) as error:
        said = last_lines(launch.log)
        raise EngineError(
            f"{engine.python} in the image cannot say what it runs on (exit status {status})\n{said}",
            hint="it has to be Python 3.10 or newer; name another one of the image's in run.interpreter",
        ) from error
