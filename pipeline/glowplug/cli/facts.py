"""``glowplug facts``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from glowplug.boot.run import model_interpreter
from glowplug.cli import options
from glowplug.host.compilers import find_compilers
from glowplug.host.facts import gather_facts
from glowplug.report.facts import facts_text


@click.command()
@options.interpreter
@options.pretend_target
@options.as_json
def command(interpreter: Path | None, pretend: tuple[str, ...], as_json: bool) -> None:
    """Show what this machine and the model's Python are taken for.

    The first line is the GPU type, the part of a tag that tells artifacts of one version apart. Without torch there is
    no artifact that fits, but that is no error here.
    """
    python = interpreter or model_interpreter(("python",), os.environ) or Path(sys.executable)
    facts = gather_facts(python, options.parse_target_overrides(pretend))
    compilers = find_compilers(os.environ)
    if as_json:
        found = {"gpu_type": facts.target.gpu_type, "interpreter": str(python), "compilers": compilers}
        options.print_json({**found, **facts.to_json()})
    else:
        options.print_result(facts_text(facts, str(python), compilers))
