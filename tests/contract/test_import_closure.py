"""What a starting container imports: little, and nothing that is only needed to build."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import glowplug
from glowplug.cli import COMMANDS
from glowplug.core.reference import LayoutRepository
from glowplug.host.facts import gather_facts
from glowplug.registry.layout import Layout
from unit.artifacts import make_sealed, make_session, publish

SOURCE_ROOT = Path(glowplug.__file__).parents[1]
# Of the build side, or of the network when there is none.
FORBIDDEN = {
    "docker",
    "oras",
    "requests",
    "yaml",
    "torch",
    "numpy",
    "urllib3",
    "deflate",
    "triton",
    "cog",
    "ssl",
}
# Of the standard library, and slow to import: a start from what is on this machine has no use for it.
SLOW = {"asyncio", "concurrent", "dataclasses", "difflib", "email", "http", "logging", "secrets", "socket"}

SHOW = """
import json, os, sys
from glowplug.cli import run
os.execvpe = lambda *_: None  # where the command would take over
status = run(sys.argv[1:]) if len(sys.argv) > 1 else 0
print(json.dumps([status, sorted(sys.modules)]))
"""


def modules_after(*arguments, before=""):
    done = subprocess.run(
        [sys.executable, "-c", before + SHOW, *arguments],
        env={**os.environ, "PYTHONPATH": str(SOURCE_ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    status, modules = json.loads(done.stdout.splitlines()[-1])
    assert status == 0, done.stderr
    return set(modules), done.stderr


def unwanted(modules, forbidden=FORBIDDEN):
    return {
        name for name in modules if name.partition(".")[0] in forbidden or name.startswith("glowplug.build")
    }


def test_importing_the_run_side_imports_nothing_of_the_build_side():
    modules, _ = modules_after(
        before="import glowplug.boot.run, glowplug.cli.run, glowplug.cli.fetch, glowplug.cli.inspect\n"
    )
    assert "glowplug.boot.run" in modules
    assert unwanted(modules) == set()


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """An artifact for this machine and this interpreter, in a layout folder."""
    folder = tmp_path_factory.mktemp("artifact")
    target = gather_facts(Path(sys.executable)).target
    sealed = make_sealed(make_session(folder, target))
    publish(Layout(LayoutRepository(str(folder / "layout"))), sealed, "v3")
    return f"oci:{folder}/layout:v3"


def modules_of_a_start(reference, place, *options):
    modules, said = modules_after(
        "run",
        reference,
        "--dest",
        str(place),
        "--strict",
        "--python",
        sys.executable,
        *options,
        "--exec",
        "--",
        "serve",
    )
    assert (place / "inductor").is_dir(), said
    return modules


def test_running_from_a_layout_imports_nothing_of_the_build_side(reference, tmp_path):
    modules = modules_of_a_start(reference, tmp_path / "place")
    assert unwanted(modules, FORBIDDEN | SLOW) == set()


def test_running_from_a_warm_store_imports_no_network(reference, tmp_path):
    layout = Path(reference.removeprefix("oci:").removesuffix(":v3"))
    digest = json.loads((layout / "index.json").read_bytes())["manifests"][0]["digest"]
    shutil.copytree(layout / "blobs", tmp_path / "store" / "blobs")
    modules = modules_of_a_start(
        f"registry.invalid/flux@{digest}", tmp_path / "place", "--store", str(tmp_path / "store")
    )
    assert unwanted(modules, FORBIDDEN | SLOW) == set()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_imports_no_command(arguments):
    modules, _ = modules_after(*arguments)
    assert {name for name in modules if name.startswith("glowplug.cli.")} == set()
    assert unwanted(modules) == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_s_help_imports_no_other_command_and_no_extra(command):
    modules, _ = modules_after(command, "--help")
    loaded = {name.removeprefix("glowplug.cli.") for name in modules if name.startswith("glowplug.cli.")}
    assert loaded == {command, "options"}
    assert {name for name in modules if name.partition(".")[0] in FORBIDDEN} == set()
