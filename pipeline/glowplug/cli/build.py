"""``glowplug build``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from glowplug.build.pipeline import BuildRequest, build
from glowplug.cli import options
from glowplug.core.spec import Overrides
from glowplug.report.build import build_table
from glowplug.report.console import Console


@click.command()
@options.spec_file
@click.option("--version", help="The model's version, instead of the spec's. [env var: GLOWPLUG_VERSION]")
@click.option("--artifact", help="The repository, instead of the spec's. [env var: GLOWPLUG_ARTIFACT]")
@click.option(
    "--rebuild",
    is_flag=True,
    envvar="GLOWPLUG_REBUILD",
    show_envvar=True,
    help="Capture again, and publish if the keys changed.",
)
@click.option(
    "--allow-partial", is_flag=True, envvar="GLOWPLUG_ALLOW_PARTIAL", show_envvar=True,
    help="Publish although the proof fails, with the shortfall recorded.",
)  # fmt: skip
@options.pretend_target
@options.registry_options
@options.as_json
def command(
    spec_path: Path,
    version: str | None,
    artifact: str | None,
    rebuild: bool,
    allow_partial: bool,
    pretend: tuple[str, ...],
    timeout_s: float | None,
    plain_http: bool,
    as_json: bool,
) -> None:
    """Make sure that the artifact for this model, version and machine exists.

    Runs the model, captures its compile caches, proves them in a fresh process, and publishes them. When the artifact
    for the same spec, version and machine is there already, nothing runs. Prints the reference with its digest.
    """
    request = BuildRequest(
        spec_path,
        Overrides(version=version, artifact=artifact),
        options.parse_target_overrides(pretend),
        rebuild,
        allow_partial,
        options.make_registry_options(timeout_s, plain_http),
    )
    console = Console()
    result = build(request, os.environ, console)
    if result.sealed:
        console.line(build_table(result))
    if as_json:
        options.print_json(result.to_json())
    else:
        options.print_result(f"{result.reference}@{result.digest}")
