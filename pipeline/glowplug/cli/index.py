"""``glowplug index``."""

from __future__ import annotations

import click

from glowplug.cli import options
from glowplug.core.record import ANNOTATION_MODEL
from glowplug.core.reference import parse_repository
from glowplug.registry.cache_index import find_entries, update_index
from glowplug.registry.sink import open_sink
from glowplug.report.console import Console


@click.command()
@click.argument("repository")
@click.argument("version")
@options.registry_options
@options.as_json
def command(repository: str, version: str, timeout_s: float | None, plain_http: bool, as_json: bool) -> None:
    """Make the index of VERSION in REPOSITORY from the tags of its artifacts.

    ``build`` does this at its end; run it after several builds that finished at the same time. Prints the index's digest.
    """
    where = parse_repository(repository)
    with open_sink(where, options.make_registry_options(timeout_s, plain_http)) as sink:
        found = find_entries(sink, version)
        model = found[0].descriptor.annotations.get(ANNOTATION_MODEL, "") if found else ""
        document, entries = update_index(sink, model, version)
    if as_json:
        options.print_json({"digest": document.digest, "tags": [entry.tag for entry in entries]})
        return
    console = Console()
    for entry in entries:
        console.line(f"{entry.tag}  {entry.descriptor.digest}")
    options.print_result(document.digest)
