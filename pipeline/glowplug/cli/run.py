"""``glowplug run``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from glowplug.boot.run import RunRequest, become, prepare
from glowplug.cli import options
from glowplug.core.reference import parse_reference
from glowplug.errors import UsageError
from glowplug.report.console import Console

REFERENCE_VARIABLE = "GLOWPLUG_REF"


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("words", nargs=-1, metavar="[REFERENCE] -- COMMAND...", type=click.UNPROCESSED)
@click.option(
    "--dest", "destination", type=click.Path(path_type=Path),
    help="Where to put the cache; must be empty or not exist. Default: a new private folder.",
)  # fmt: skip
@click.option("--strict", is_flag=True, help="End with an error instead of starting without a cache.")
@options.interpreter
@options.registry_options
def command(
    words: tuple[str, ...],
    destination: Path | None,
    strict: bool,
    interpreter: Path | None,
    timeout_s: float | None,
    plain_http: bool,
) -> None:
    """Fetch the artifact that fits this machine, set the environment, and become COMMAND.

    REFERENCE defaults to $GLOWPLUG_REF. Whatever is wrong with the cache becomes one warning, and the command starts
    without it.
    """
    reference, words = _split(words)
    connection = options.make_registry_options(timeout_s, plain_http)
    request = RunRequest(parse_reference(reference), words, destination, interpreter, strict, connection)
    become(words, prepare(request, os.environ, Console()))


def _split(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Tell the reference from the command; click has taken a ``--`` that nothing stood before."""
    reference = os.environ.get(REFERENCE_VARIABLE, "")
    if "--" in words:
        place = words.index("--")
        if place > 1:
            raise UsageError(f"{words[1]} stands before --", hint="glowplug run REFERENCE -- COMMAND...")
        reference, words = words[0] if place else reference, words[place + 1 :]
    if not reference:
        raise UsageError(
            "no reference", hint=f"glowplug run REFERENCE -- COMMAND..., or set {REFERENCE_VARIABLE}"
        )
    if not words:
        raise UsageError("no command", hint="glowplug run REFERENCE -- COMMAND...")
    return reference, words
