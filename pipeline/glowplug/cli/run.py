"""``glowplug run``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from glowplug.boot.run import RunRequest, become, prepare
from glowplug.cli import options
from glowplug.errors import UsageError
from glowplug.report.console import Console


class _Launcher(click.Command):
    """Keeps what follows the first ``--`` away from click: those are another program's words."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        place = args.index("--") if "--" in args else len(args)
        ctx.obj = tuple(args[place + 1 :])
        return super().parse_args(ctx, args[:place])


@click.command(cls=_Launcher, options_metavar="[OPTIONS]")
@click.argument("reference", required=False, envvar="GLOWPLUG_REF", metavar="[REFERENCE] -- COMMAND...")
@click.option(
    "--dest", "destination", type=click.Path(path_type=Path),
    help="Where to put the cache; must be empty or not exist. Default: a new private folder.",
)  # fmt: skip
@click.option("--strict", is_flag=True, help="End with an error instead of starting without a cache.")
@options.interpreter
@options.access_options
@click.pass_obj
def command(
    words: tuple[str, ...],
    /,
    reference: str | None,
    destination: Path | None,
    strict: bool,
    interpreter: Path | None,
    **flags: Any,
) -> None:
    """Fetch the artifact that fits this machine, set the environment, and become COMMAND.

    REFERENCE defaults to $GLOWPLUG_REF. Whatever is wrong with the cache becomes one warning, and the command starts
    without it.
    """
    if not words:
        raise UsageError("no command to start", hint="glowplug run REFERENCE -- COMMAND...")
    access = options.AccessFlags(**flags).access()
    request = RunRequest(reference or "", words, destination, interpreter, strict, access)
    become(words, prepare(request, os.environ, Console()))
