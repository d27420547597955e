"""The command line in processes of its own, on an artifact in a layout folder that was made without a model."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import glowplug
from glowplug import cli
from glowplug.core.reference import LayoutRepository
from glowplug.host.facts import gather_facts
from glowplug.registry.layout import Layout
from unit.artifacts import make_sealed, make_session, publish

SOURCE_ROOT = Path(glowplug.__file__).parents[1]
GLOWPLUG = [sys.executable, "-m", "glowplug"]
ENVIRON = {name: value for name, value in os.environ.items() if not name.startswith("GLOWPLUG_")}


def call(*arguments, **env):
    return subprocess.run(
        [*GLOWPLUG, *map(str, arguments)],
        env={**ENVIRON, "PYTHONPATH": str(SOURCE_ROOT), "GLOWPLUG_PYTHON": sys.executable, **env},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    """A layout folder with an artifact for this machine, and one for a machine with another torch."""
    folder = tmp_path_factory.mktemp("artifact")
    target = gather_facts(Path(sys.executable)).target
    for name, made_for in (("other", target._replace(torch="1.0.0")), ("this", target)):
        (folder / name).mkdir()
        sealed = make_sealed(make_session(folder / name, made_for))
        publish(Layout(LayoutRepository(str(folder / "layout"))), sealed, f"v3-{name}")
    publish(Layout(LayoutRepository(str(folder / "layout"))), sealed, f"v3-{target.gpu_type}")
    return f"oci:{folder}/layout"


def test_the_index_is_made_and_used(layout, tmp_path):
    made = call("index", layout, "v3", "--json")
    assert made.returncode == 0, made.stderr
    assert len(json.loads(made.stdout)["tags"]) == 1
    shown = call("inspect", f"{layout}:v3", "--json")
    (artifact,) = json.loads(shown.stdout)["artifacts"]
    assert artifact["record"]["model"] == {"name": "flux-schnell", "version": "v3"}


@pytest.mark.parametrize(
    "arguments", [["inspect", "{layout}:v3-this"], ["fetch", "{layout}:v3-this", "--dest", "{tmp}/place"]]
)
def test_json_is_all_there_is_on_stdout(layout, tmp_path, arguments):
    words = [word.format(layout=layout, tmp=tmp_path) for word in arguments]
    done = call(*words, "--json", LANG="C", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["reference"] == words[1]
    assert done.stdout.isascii()


def test_a_fetch_prints_the_environment(layout, tmp_path):
    done = call("fetch", f"{layout}:v3-this", "--dest", tmp_path / "place")
    assert done.returncode == 0, done.stderr
    environment = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert environment["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "place" / "inductor")
    assert environment["GLOWPLUG_CACHE"] == str(tmp_path / "place")
    assert "✓ Fetch" in done.stderr


def test_inspect_is_for_people(layout):
    done = call("inspect", f"{layout}:v3-this")
    assert "proved: no compile work after a restore" in done.stdout
    assert done.stderr == ""


ECHO = (
    "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ.get('GLOWPLUG_CACHE'), os.getpid()]))"
)


def test_run_becomes_the_command_if_asked_to(layout, tmp_path):
    command = [sys.executable, "-c", ECHO, "--strict", "--", "--help"]
    process = subprocess.Popen(
        [*GLOWPLUG, "run", f"{layout}:v3-this", "--dest", tmp_path / "place", "--exec", "--", *command],
        env={**ENVIRON, "PYTHONPATH": str(SOURCE_ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    out, _ = process.communicate()
    assert json.loads(out) == [["--strict", "--", "--help"], str(tmp_path / "place"), process.pid]


def test_run_takes_its_reference_from_the_environment(layout, tmp_path):
    done = call(
        "run",
        "--dest",
        tmp_path / "place",
        "--",
        sys.executable,
        "-c",
        ECHO,
        GLOWPLUG_REF=f"{layout}:v3-this",
    )
    assert json.loads(done.stdout)[1] == str(tmp_path / "place")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("GLOWPLUG_TIMEOUT", "soon"),
        ("GLOWPLUG_UPDATE", "perhaps"),
        ("GLOWPLUG_READY", "yes"),
        ("GLOWPLUG_GRACE_S", "?"),
    ],
)
def test_a_bad_variable_does_not_keep_a_server_from_starting(layout, tmp_path, variable, value):
    run = ["run", f"{layout}:v3-this", "--dest", tmp_path / "place", "--python", sys.executable]
    done = subprocess.run(
        [*GLOWPLUG, *run, "--", "sh", "-c", "exit 7"],
        env={**ENVIRON, "PYTHONPATH": str(SOURCE_ROOT), variable: value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 7, done.stderr
    assert done.stderr.count("warning:") == 1
    assert value in done.stderr


def test_run_removes_the_private_folder_that_it_made(layout, tmp_path):
    done = call(
        *["run", f"{layout}:v3-this", "--python", sys.executable, "--", sys.executable, "-c"],
        f"{ECHO}; import pathlib; print(pathlib.Path(os.environ['GLOWPLUG_CACHE'], 'inductor').is_dir())",
        HOME=str(tmp_path),
    )
    said, was_there = done.stdout.splitlines()
    assert json.loads(said)[1].startswith(f"{tmp_path}/.cache/glowplug/glowplug-run-")
    assert was_there == "True"
    assert list((tmp_path / ".cache" / "glowplug").iterdir()) == []


def test_run_starts_cold_when_nothing_fits(layout, tmp_path):
    run = ["run", f"{layout}:v3-other", "--dest", tmp_path / "place"]
    done = call(*run, "--", sys.executable, "-c", f"{ECHO}; sys.exit(7)")
    assert (done.returncode, json.loads(done.stdout)[1]) == (7, None)
    assert "warning: no cache: " in done.stderr
    strict = call(*run, "--strict", "--", sys.executable, "-c", ECHO)
    assert (strict.returncode, strict.stdout) == (13, "")
    assert not (tmp_path / "place").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["biuld"], 2, "there is no command 'biuld'; did you mean build?"),
        (["frobnicate"], 2, "No such command"),
        (["fetch", "{layout}:v3-this"], 2, "--dest"),
        (["fetch", "no reference", "--dest", "x"], 2, "does not start with a registry host"),
        (["fetch", "{layout}:v3-this", "--dest", "{layout_folder}"], 2, "is not empty"),
        (["fetch", "{layout}:v3-this", "--dest", "x", "--pretend-target", "torch"], 2, "has no '='"),
        (["fetch", "{layout}:v3-this", "--dest", "x", "--pretend-target", "troch=1"], 2, "troch"),
        (["fetch", "{layout}:v3-this", "--dest", "x", "--timeout", "0"], 2, "--timeout"),
        (["fetch", "{layout}:v3-other", "--dest", "x"], 13, "torch 1.0.0 ≠"),
        (["fetch", "{layout}:v3-this", "--dest", "x", "--python", "/absent/python"], 31, "/absent/python"),
        (["inspect", "{layout}:v9"], 12, "v9"),
        (["index", "{layout}", "v9"], 12, "no artifact of version v9"),
        (["index", "{layout}:v3", "v3"], 2, "carries a tag"),
        (["build", "-f", "/absent/glowplug.yaml"], 3, "/absent/glowplug.yaml"),
        (["run", "{layout}:v3-this"], 2, "no command to start"),
        (
            ["run", "{layout}:v3-this", "--dest", "{tmp}/x", "--", "/absent/serve"],
            2,
            "cannot start /absent/serve",
        ),
    ],
)
def test_a_failure_is_a_sentence_a_hint_and_a_code(layout, tmp_path, arguments, code, said):
    places = {"layout": layout, "layout_folder": layout.removeprefix("oci:"), "tmp": tmp_path}
    done = call(*[word.format(**places) for word in arguments])
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert said in done.stderr
    assert "\nhint: " in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_command_there_is_help():
    done = call()
    assert (done.returncode, done.stdout) == (2, "")
    assert all(f"\n  {name} " in done.stderr for name in cli.COMMANDS)


def test_the_version():
    assert call("--version").stdout == f"glowplug, version {glowplug.__version__}\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_ends_with_130(layout, tmp_path, number):
    fifo = tmp_path / "blocked.yaml"
    os.mkfifo(fifo)  # reading the spec waits until it is opened here
    process = subprocess.Popen(
        [*GLOWPLUG, "build", "-f", fifo],
        env={**ENVIRON, "PYTHONPATH": str(SOURCE_ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509 - whoever runs the tests may ignore it
    )
    with fifo.open("w"):
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "error: interrupted\nhint: " in said
    assert "Traceback" not in said


def test_facts_say_what_the_model_s_python_is_taken_for():
    done = call("facts", "--json")
    assert done.returncode == 0, done.stderr
    facts, expected = json.loads(done.stdout), gather_facts(Path(sys.executable))
    assert facts["gpu_type"] == expected.target.gpu_type
    assert facts["interpreter"] == sys.executable
    assert {name: facts[name] for name in expected.to_json()} == json.loads(json.dumps(expected.to_json()))


def test_facts_of_a_pretended_machine():
    done = call("facts", "--pretend-target", "device_kind=cuda", "--pretend-target", "device_name=NVIDIA L40S",
                "--pretend-target", "device_arch=sm_89")  # fmt: skip
    assert done.stdout.splitlines()[0] == "l40s-sm89", done.stderr


def test_facts_of_a_python_without_torch_are_facts_too(tmp_path):
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    done = call("facts", "--json", GLOWPLUG_PYTHON=str(environment / "bin" / "python"))
    assert (done.returncode, json.loads(done.stdout)["target"]["torch"]) == (0, ""), done.stderr
