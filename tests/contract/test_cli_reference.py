"""docs/reference/cli.md is what the commands say of themselves."""

import importlib
import re
from pathlib import Path

import click
import pytest

from contract.cli_page import options_of, page
from glowplug.cli import COMMANDS, cli

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == page(), "python tests/contract/cli_page.py > docs/reference/cli.md"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_word_of_click_s_help_is_on_the_page(name):
    command = importlib.import_module(f"glowplug.cli.{name}").command
    words = set(command.get_help(click.Context(command, info_name=name)).split())
    (section,) = re.findall(rf"^## glowplug {name}$(.*?)(?=^## )", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    shown = set(re.sub(r"[`|\\\[\].,;:]", " ", section).split())
    needed = {re.sub(r"[`|\\\[\].,;:]", " ", word).strip() for word in words}
    # What click adds of its own: headings, --help, and the limits of a number.
    added = {
        "Usage",
        "OPTIONS",
        "Options",
        "env",
        "var",
        "default",
        "x>0",
        "--help",
        *["Show", "this", "message", "and", "exit"],
    }
    assert {part for word in needed for part in word.split()} - shown - added == set()


def test_every_option_says_what_it_does():
    commands = [importlib.import_module(f"glowplug.cli.{name}").command for name in COMMANDS]
    silent = [
        option.name for command in [cli, *commands] for option in options_of(command) if not option.help
    ]
    assert silent == []
