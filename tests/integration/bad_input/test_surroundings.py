"""Odd environments, streams and terminals: the work is done, and what is said stays readable."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from integration.bad_input.artifact import Artifact
from integration.bad_input.project import Outcome, Project, finished

Env = Mapping[str, "str | bytes | None"]
ODD_ENVIRONMENTS: list[Env] = [
    {"HOME": None},
    {"HOME": "/proc/nowhere"},
    {"TMPDIR": "/nonexistent"},
    {"TMPDIR": "/proc"},
    {"LANG": "C", "LC_ALL": "C"},
    {"LANG": "C", "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"PYTHONIOENCODING": "ascii:strict"},
    {"TERM": None, "NO_COLOR": "1", "CI": "true"},
    {"ODD": b"\xff\xfe", "TORCHINDUCTOR_ODD": b"\xff\xfe"},
]


@pytest.mark.parametrize("env", ODD_ENVIRONMENTS, ids=str)
def test_an_odd_environment(project: Project, artifact: Artifact, env: Env) -> None:
    outcome = project.build(env=env)
    assert outcome.code == 0, outcome.stderr
    assert outcome.stdout == f"oci:{project.folder}/./cache:{artifact.tag}@{artifact.digest}\n".replace(
        "/./", "/"
    )
    assert not project.model_ran
    shown = project.glowplug("inspect", "oci:./cache:v1", "--json", env=env)
    assert json.loads(shown.stdout)["artifacts"][0]["digest"] == artifact.digest
    assert project.glowplug("inspect", "oci:./cache:v1", env=env).code == 0
    assert project.glowplug("fetch", "oci:./cache:v1", "--dest", "out", env=env).code == 0
    assert project.leftovers() == []


@pytest.mark.parametrize(
    "env", [{"HOME": None}, {"HOME": "/proc/nowhere"}, {"TMPDIR": "/nonexistent"}, {"LC_ALL": "C"}], ids=str
)
def test_a_model_in_an_odd_environment(project: Project, env: Env) -> None:
    project.model(
        "import os, tempfile\ntempfile.mkstemp()\nraise ValueError('\\u00fcber', os.environ.get('HOME'))\n"
    )
    project.build(env=env).refused(30, "ValueError: ")
    assert project.untouched()


def test_no_place_for_temporary_files(project: Project) -> None:
    """Python takes any of TMPDIR, /tmp, /var/tmp and the current folder; here nobody can write to one of them."""
    script = (
        "import sys, tempfile\n"
        "tempfile._candidate_tempdir_list = lambda: ['/nonexistent']\n"
        "from glowplug.cli import run\n"
        "sys.exit(run(sys.argv[1:]))\n"
    )
    for words, code in ((["build"], 1), (["run", "--strict", "oci:./cache:v1", "--", "true"], 12)):
        process = subprocess.Popen(
            [sys.executable, "-c", script, *words],
            cwd=project.folder,
            env=project.environ(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        finished(process).refused(code)
    assert not project.model_ran


def shell(project: Project, command: str) -> Outcome:
    """Run a command in which ``$G`` is glowplug."""
    env = project.environ({"G": f"{sys.executable} -m glowplug"})
    process = subprocess.Popen(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=project.folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    return finished(process)


@pytest.mark.parametrize(
    "command",
    [
        "$G build <&-",
        "$G build | head -c 0",
        "$G build >&-",
        "$G build 2>&-",
        "$G build <&- >&- 2>&-",
        "$G build 2> >(exec head -c 0)",
        "$G build 2>/dev/full",
        "$G inspect oci:./cache:v1 | head -c 0",
        "$G inspect oci:./cache:v1 --json | head -c 0",
        "$G fetch oci:./cache:v1 --dest out | head -c 0",
        "$G fetch oci:./cache:v1 --dest out >&- 2>&- && test -e out/record.json",
        "$G index oci:./cache v1 | head -c 0",
    ],
)
def test_a_stream_that_nobody_reads(project: Project, artifact: Artifact, command: str) -> None:
    outcome = shell(project, command)
    assert outcome.code == 0, outcome
    assert "Traceback" not in outcome.stderr
    assert "Exception ignored" not in outcome.stderr
    assert project.leftovers() == []


def test_a_result_that_cannot_be_written_is_a_failure(project: Project, artifact: Artifact) -> None:
    for command in ("$G build", "$G inspect oci:./cache:v1", "$G fetch oci:./cache:v1 --dest out --json"):
        shell(project, f"{command} > /dev/full").refused(1, "No space left")


def test_an_error_that_nobody_reads_keeps_its_code(project: Project) -> None:
    for redirection in ("2>&-", "2>/dev/full", "<&- >&- 2>&-"):
        assert shell(project, f"$G fetch oci:./nowhere:v1 --dest out {redirection}").code == 12


def on_terminal(project: Project, *words: str, env: Env | None = None) -> tuple[int, str]:
    """Run a command with stderr on a terminal of its own."""
    ours, theirs = pty.openpty()
    process = project.start(*words, env={"TERM": "xterm", **(env or {})}, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # how Linux says that the other side is closed
        pass
    os.close(ours)
    finished(process)
    return process.returncode, shown.decode()


def visible(shown: str) -> list[str]:
    """What is left on the screen: a carriage return starts the line over."""
    lines = []
    for line in re.sub(r"\x1b\[\d+m", "", shown).replace("\r\n", "\n").split("\n"):
        screen = ""
        for part in line.split("\r"):
            screen = part + screen[len(part) :]
        lines.append(screen.rstrip())
    return lines


def test_a_terminal_shows_progress_and_stays_clean(project: Project) -> None:
    project.model("import time; time.sleep(1.5); raise ValueError('over')")
    code, shown = on_terminal(project, "build")
    assert code == 30
    assert "Run the model without torch.compile: 1 s, 0 inputs answered" in shown
    assert "\x1b[31merror:\x1b[0m" in shown
    lines = visible(shown)
    assert not any("inputs answered" in line for line in lines), lines
    assert sum(line.startswith("error: ") for line in lines) == 1
    assert lines[-1] == ""


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_a_terminal_without_colours(project: Project, env: Env) -> None:
    code, shown = on_terminal(project, "fetch", "oci:./nowhere:v1", "--dest", "out", env=env)
    assert code == 12
    assert "error: " in shown
    assert "\x1b" not in shown


def test_paths_that_hold_anything(tmp_path: Path) -> None:
    project = Project(tmp_path / "a b;c'd\"é")
    project.model("raise ValueError('found')")
    project.build().refused(30, "found")
    assert project.untouched()
