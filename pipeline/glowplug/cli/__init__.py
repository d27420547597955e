"""The command line: thin, one file per command, imported when the command is called."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from types import FrameType

import click

from glowplug import __version__
from glowplug.errors import GlowplugError, ToolMissingError
from glowplug.report.console import Console

# Name -> what `glowplug --help` says of it; the module glowplug.cli.<name> defines `command`. Kept here so that
# `glowplug run` in a starting container imports nothing of the others.
COMMANDS = {
    "build": "Make sure that the artifact for this model, version and machine exists.",
    "index": "Make the index of a model version from the tags of its artifacts.",
    "inspect": "Show what an artifact holds, for which targets, and how it was proved.",
    "fetch": "Put the artifact that fits this machine into a folder.",
    "run": "Fetch, set the environment, and start a command.",
    "facts": "Show what this machine and the model's Python are taken for.",
}

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_INTERRUPTED = 130


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        try:
            command: click.Command = importlib.import_module(f"glowplug.cli.{name}").command
        except ModuleNotFoundError as error:
            if error.name != "glowplug.build":
                raise
            raise ToolMissingError(
                f"{ctx.info_name} is glowplug's run side, which has no '{name}'",
                hint="pip install 'glowplug[build]'",
            ) from error
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS:
            import difflib  # noqa: PLC0415

            for close in difflib.get_close_matches(args[0], COMMANDS, n=1):
                ctx.fail(f"there is no command '{args[0]}'; did you mean {close}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="glowplug")
def cli() -> None:
    """Compile caches of torch.compile models as proved OCI artifacts: built in CI, fetched at container start."""


def main() -> None:
    """Run the command line, and turn every error into one sentence and its exit code."""
    code = run(sys.argv[1:])
    if code == _INTERRUPTED:
        os._exit(code)  # a thread may still wait for a silent registry
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    console = Console()
    for number in _INTERRUPTS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, _interrupt)
    try:
        cli.main(arguments, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.ClickException as error:
        hint = f"{error.ctx.command_path} --help" if isinstance(error, click.UsageError) and error.ctx else ""
        console.error(error.format_message(), hint)
        return error.exit_code
    except GlowplugError as error:
        console.error(str(error), error.hint)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        console.error("interrupted", "start it again; nothing half-written is left or published")
        return _INTERRUPTED
    except OSError as error:
        console.error(f"{error.filename or 'the system'}: {error.strerror or error}", GlowplugError.next_step)
        return GlowplugError.exit_code
    return 0


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    """Clean up as after Ctrl-C; CI systems send SIGINT, then SIGTERM, and the second must not stop the cleaning."""
    for number in _INTERRUPTS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
