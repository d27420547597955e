"""``glowplug inspect``."""

from __future__ import annotations

import click

from glowplug.boot.describe import describe
from glowplug.cli import options
from glowplug.core.reference import Reference
from glowplug.registry.source import open_source
from glowplug.report.console import Console
from glowplug.report.inspect import inspect_text


@click.command()
@options.reference
@options.registry_options
@options.as_json
def command(reference: Reference, timeout_s: float | None, plain_http: bool, as_json: bool) -> None:
    """Show what REFERENCE holds: targets, sizes, files by kind, timings, and the proof."""
    connection = options.make_registry_options(timeout_s, plain_http)
    with open_source(reference.repository, connection, Console().note) as source:
        artifacts = describe(source, reference)
    if as_json:
        options.print_json({"reference": str(reference), "artifacts": [a.to_json() for a in artifacts]})
    else:
        options.print_result(inspect_text(reference, artifacts))
