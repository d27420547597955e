"""Writes docs/reference/cli.md from the commands themselves: ``python tests/contract/cli_page.py > docs/reference/cli.md``."""

from __future__ import annotations

import importlib
import inspect
import sys

import click

from glowplug.cli import COMMANDS, cli

HEAD = """\
# Commands

<!-- Generated. To write it again: python tests/contract/cli_page.py > docs/reference/cli.md -->

`glowplug COMMAND`, or `python -m glowplug COMMAND`. Results go to stdout, everything for people to stderr; `--json` makes
the result JSON. A flag goes before its environment variable, a variable before the spec. Failures end with one of the
[exit codes](exit-codes.md). `REFERENCE` is `HOST/NAME:TAG`, `HOST/NAME@sha256:DIGEST`, or `oci:PATH:TAG` for an OCI layout
folder; plain HTTP is used for registries on this machine only. `inspect`, `fetch`, `run` also take a model's image that
[links to its cache](artifact-format.md#link). Every command has `-h` and `--help`.
"""


def page() -> str:
    """Return the whole page."""
    overview = [f"| [`{name}`](#glowplug-{name}) | {said} |" for name, said in COMMANDS.items()]
    parts = [HEAD, "\n".join(["| command | |", "| --- | --- |", *overview])]
    parts += [section(name) for name in COMMANDS]
    parts.append(f"## glowplug\n\n{options_table(cli)}")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def section(name: str) -> str:
    """Return what one command does, how it is called, and its options."""
    command: click.Command = importlib.import_module(f"glowplug.cli.{name}").command
    context = click.Context(command, info_name=f"glowplug {name}")
    usage = " ".join([f"glowplug {name}", *command.collect_usage_pieces(context)])
    said = inspect.cleandoc(command.help or "").replace("``", "`")
    return f"## glowplug {name}\n\n{said}\n\n```\n{usage}\n```\n\n{options_table(command)}"


def options_table(command: click.Command) -> str:
    rows = ["| option | variable | default | |", "| --- | --- | --- | --- |"]
    return "\n".join([*rows, *map(option_row, options_of(command))])


def options_of(command: click.Command) -> list[click.Option]:
    """Return the options of a command but ``--help``, which they all have."""
    return [option for option in command.params if isinstance(option, click.Option) and option.name != "help"]


def option_row(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    if not option.is_flag:
        names += f" {option.metavar or choices(option) or option.type.name.upper()}".replace("|", "\\|")
    said, _, variable = (option.help or "").partition("[env var: ")
    variable = option.envvar if isinstance(option.envvar, str) else variable.strip("] ")
    default = f"`{option.default}`" if isinstance(option.default, str) else ""
    cells = [
        names,
        f"`{variable}`" if variable else "",
        "required" if option.required else default,
        said.strip(),
    ]
    return f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")


def choices(option: click.Option) -> str:
    return "|".join(option.type.choices) if isinstance(option.type, click.Choice) else ""


if __name__ == "__main__":
    sys.stdout.write(page())
