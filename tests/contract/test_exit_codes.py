"""docs/reference/exit-codes.md names every code that the program ends with."""

from pathlib import Path

from glowplug import cli, errors
from glowplug.errors import GlowplugError

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "exit-codes.md"
KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, GlowplugError)]


def rows():
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and line[2].isdigit()]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]


def test_every_error_is_a_row_and_every_row_an_error():
    documented = [(int(code), name) for code, name, _, _ in rows() if name]
    assert documented == sorted((kind.exit_code, kind.__name__) for kind in KINDS)


def test_the_other_rows_are_success_and_interruption():
    assert [int(code) for code, name, _, _ in rows() if not name] == [0, cli._INTERRUPTED]


def test_every_row_says_when_and_what_to_do():
    assert [code for code, _, when, advice in rows() if not when or (not advice and code != "0")] == []


def test_every_error_has_a_code_of_its_own_and_a_next_step():
    assert len({kind.exit_code for kind in KINDS}) == len(KINDS)
    assert [kind.__name__ for kind in KINDS if not kind("x").hint] == []


def test_codes_of_others_are_not_used():
    taken = {*range(64, 79), *range(125, 129)}
    assert [kind.__name__ for kind in KINDS if kind.exit_code in taken or not 0 < kind.exit_code < 125] == []
