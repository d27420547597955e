"""Which part of the package may import which: the table of pipeline/README.md, checked line by line."""

import ast
import sys
from pathlib import Path

import pytest

import glowplug

PACKAGE = Path(glowplug.__file__).parent
ADAPTERS = {"archive", "caches", "engine", "host", "registry", "workload"}
BELOW = {"core", "errors"}
MAY_IMPORT = {
    "errors": set(),
    "core": {"errors"},
    **dict.fromkeys(ADAPTERS, BELOW),
    "agent": set(),
    "report": BELOW,
    "boot": ADAPTERS - {"engine", "workload"} | BELOW | {"report"},
    "build": ADAPTERS | BELOW | {"report"},
    "cli": BELOW | {"boot", "build", "report"},
    "__main__": {"cli"},
    "__init__": {"boot"},  # the Python interface, imported when it is used
}
EXCEPTIONS = {
    ("cli/options.py", "registry"): "the flags of a connection are its options",
    ("cli/facts.py", "host"): "it shows what that finds out",
    ("cli/index.py", "registry"): "it opens the repository that the argument names",
    ("report/build.py", "build"): "the type of what it shows; not imported when the program runs",
    ("report/inspect.py", "boot"): "the type of what it shows; not imported when the program runs",
}
MODULES = sorted(
    path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if path.stat().st_size
)


def part_of(module):
    return module.partition("/")[0].removesuffix(".py")


def imports_of(module):
    """Return the dotted names that a module imports, wherever in it."""
    for node in ast.walk(ast.parse((PACKAGE / module).read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parts_imported(module):
    """Return the parts of the package that a module imports, its own left out; the version is everyone's."""
    own = {name.split(".")[1] for name in imports_of(module) if name.startswith("glowplug.")}
    return own - {part_of(module), "__version__"}


@pytest.mark.parametrize("module", MODULES)
def test_dependencies_point_one_way(module):
    excepted = {part for name, part in EXCEPTIONS if name == module}
    assert parts_imported(module) - excepted <= MAY_IMPORT[part_of(module)]


@pytest.mark.parametrize("module", [module for module in MODULES if part_of(module) == "agent"])
def test_the_agent_stands_alone(module):
    """It is copied into an environment where nothing of ours is: the standard library, and what models bring."""
    siblings = {Path(name).stem for name in MODULES if part_of(name) == "agent"}
    allowed = sys.stdlib_module_names | siblings | {"torch", "numpy", "PIL", "cog", "pydantic"}
    assert {name.partition(".")[0] for name in imports_of(module)} <= allowed


def test_every_exception_is_still_needed():
    assert [(module, part) for module, part in EXCEPTIONS if part not in parts_imported(module)] == []


def test_the_types_that_reports_show_are_imported_for_the_type_checker_alone():
    for module, part in EXCEPTIONS:
        if part_of(module) == "report":
            tree = ast.parse((PACKAGE / module).read_text())
            top = {f"{node.module}" for node in tree.body if isinstance(node, ast.ImportFrom)}
            assert not any(name.startswith(f"glowplug.{part}") for name in top)


def test_the_readme_describes_every_part():
    rows = (PACKAGE.parent / "README.md").read_text().splitlines()
    described = {row.split("`")[1].strip("/").removesuffix(".py") for row in rows if row.startswith("| `")}
    assert described == {part for part in MAY_IMPORT if not part.startswith("__")}
    assert described | {"__main__", "__init__"} == {part_of(name) for name in MODULES}
