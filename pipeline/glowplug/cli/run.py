"""``glowplug run``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from glowplug.boot.readiness import Readiness, parse_readiness
from glowplug.boot.run import RunRequest, become, prepare
from glowplug.boot.serve import Service, UpdateMode, serve
from glowplug.boot.supervise import grace_period
from glowplug.cli import options
from glowplug.errors import UsageError
from glowplug.report.console import Console


class _Launcher(click.Command):
    """Keeps what follows the first ``--`` away from click, and bad variables away from the server."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        try:
            return super().make_context(info_name, list(args), parent, **extra)
        except click.BadParameter as error:
            variable = error.param.envvar if error.param else None
            if not isinstance(variable, str) or variable not in os.environ:
                raise
            # A typo in a deployment's settings is no reason not to serve.
            Console().warn(f"{variable}: {error.message} It is ignored.")
            del os.environ[variable]
            return self.make_context(info_name, args, parent, **extra)

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
@click.option(
    "--ready", envvar="GLOWPLUG_READY", show_envvar=True, metavar="URL|HOST:PORT",
    help="How to tell that the server is ready: a URL that answers 2xx, or a port that accepts connections.",
)  # fmt: skip
@click.option(
    "--update", type=click.Choice(["off", "pending", "direct"]), default="off", show_default=True,
    envvar="GLOWPLUG_UPDATE", show_envvar=True,
    help="Publish what the server compiled: under a tag of its own, or under the artifact's.",
)  # fmt: skip
@click.option(
    "--exec",
    "is_exec",
    is_flag=True,
    help="Become the command instead of staying its parent: no second start, no update.",
)
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
    ready: str | None,
    update: UpdateMode,
    is_exec: bool,
    **flags: Any,
) -> None:
    """Fetch the artifact that fits this machine, set the environment, and run COMMAND.

    REFERENCE defaults to $GLOWPLUG_REF, then to what /etc/glowplug/ref says. Whatever is wrong with the cache becomes one warning, and the command starts
    without it. We stay its parent: every signal is passed on, its exit status is ours, and what it leaves behind is
    ended $GLOWPLUG_GRACE_S seconds after the first request to stop.
    """
    if not words:
        raise UsageError("no command to start", hint="glowplug run REFERENCE -- COMMAND...")
    access = options.AccessFlags(**flags).access()
    request = RunRequest(reference or "", words, destination, interpreter, strict, access)
    console = Console()
    try:
        readiness = parse_readiness(ready)
    except UsageError as error:
        if strict:
            raise
        console.warn(f"{error}; it counts as ready after a while")
        readiness = Readiness()
    prepared = prepare(request, os.environ, console)
    if is_exec:
        become(words, prepared.environment)
        return
    grace_s = grace_period(os.environ, console)
    service = Service(words, readiness, grace_s, update, access.registry)
    status = serve(service, prepared, os.environ, console)
    # A thread that was left behind, at a silent registry, must not keep the container.
    os._exit(status)
