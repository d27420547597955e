"""``glowplug inspect``."""

from __future__ import annotations

import click

from glowplug.boot.describe import describe
from glowplug.cli import options
from glowplug.core.reference import Reference
from glowplug.report.console import Console
from glowplug.report.inspect import inspect_text


@click.command()
@options.reference
@options.registry_options
@options.as_json
def command(reference: Reference, timeout_s: float | None, plain_http: bool, as_json: bool) -> None:
    """Show what REFERENCE holds: targets, sizes, files by kind, timings, and the proof.

    REFERENCE may also be a model's image; then the artifacts are shown that it is linked to.
    """
    connection = options.make_registry_options(timeout_s, plain_http)
    artifacts = describe(reference, connection, Console().note)
    if as_json:
        options.print_json({"reference": str(reference), "artifacts": [a.to_json() for a in artifacts]})
    else:
        options.print_result(inspect_text(reference, artifacts))
