"""``glowplug fetch``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from glowplug.boot.activate import activation
from glowplug.boot.fetch import fetch
from glowplug.boot.run import model_facts, model_interpreter
from glowplug.cli import options
from glowplug.core.reference import Reference
from glowplug.report.console import Console


@click.command()
@options.reference
@click.option(
    "--dest", "destination", type=click.Path(path_type=Path), required=True,
    envvar="GLOWPLUG_DEST", show_envvar=True, help="Where to put it; must be empty or not exist.",
)  # fmt: skip
@options.interpreter
@options.pretend_target
@options.access_options
@options.as_json
def command(
    reference: Reference,
    destination: Path,
    interpreter: Path | None,
    pretend: tuple[str, ...],
    as_json: bool,
    **flags: Any,
) -> None:
    """Put the artifact of REFERENCE that fits this machine into a folder, every digest checked.

    Prints the environment for the model's process, one NAME=VALUE a line (with --json: the result and the environment).
    """
    python = interpreter or model_interpreter(("python",), os.environ)
    facts = model_facts(python, options.parse_target_overrides(pretend))
    console = Console()
    for note in facts.notes:
        console.warn(note)
    fetched = fetch(reference, facts.target, destination, options.AccessFlags(**flags).access(), console)
    environment = activation(fetched.record, fetched.path, os.environ)
    if as_json:
        options.print_json({**fetched.to_json(), "environment": environment})
        return
    options.print_result("\n".join(f"{name}={value}" for name, value in environment.items()))
