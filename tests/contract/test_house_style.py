"""Limits that keep the code readable, and the agent's Python."""

import ast
from pathlib import Path

import pytest

import glowplug

PACKAGE = Path(glowplug.__file__).parent
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
MAX_LINES = 299
MAX_STATEMENTS = 40
MAX_PARAMETERS = 5


def functions(module):
    tree = ast.parse((PACKAGE / module).read_text())
    return [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


@pytest.mark.parametrize("module", MODULES)
def test_modules_are_short(module):
    assert len((PACKAGE / module).read_text().splitlines()) <= MAX_LINES


@pytest.mark.parametrize("module", MODULES)
def test_functions_are_short(module):
    sizes = {
        function.name: sum(isinstance(node, ast.stmt) for part in function.body for node in ast.walk(part))
        for function in functions(module)
    }
    assert {name: size for name, size in sizes.items() if size > MAX_STATEMENTS} == {}


@pytest.mark.parametrize("module", [module for module in MODULES if not module.startswith("cli/")])
def test_functions_have_few_parameters(module):
    """A command of the CLI is not counted: click hands over each flag as an argument of its own."""
    for function in functions(module):
        arguments = function.args
        names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        assert len([name for name in names if name not in ("self", "cls")]) <= MAX_PARAMETERS, function.name


@pytest.mark.parametrize("module", [module for module in MODULES if module.startswith("agent/")])
def test_the_agent_is_written_for_python_3_9(module):
    ast.parse((PACKAGE / module).read_text(), feature_version=(3, 9))
