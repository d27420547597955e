"""Whatever is wrong with the cache, ``run`` starts the command without it, once, as it was asked to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from integration.bad_input.artifact import Artifact, damage
from integration.bad_input.project import Outcome, Project
from integration.services import RegistryService, free_port

COMMAND = [sys.executable, "-c", "import sys; print('serving', *sys.argv[1:]); sys.exit(int(sys.argv[1]))"]


def damaged(artifact: Artifact, part: str) -> str:
    damage(artifact.blob(artifact.part(part)), "one bit")
    return "oci:./cache:v1"


def for_another_host(artifact: Artifact) -> str:
    artifact.forge(
        manifest=lambda manifest: manifest["annotations"].update({"dev.glowplug.target.torch": "1.0"})
    )
    return "oci:./cache:v1"


def setting_ld_preload(artifact: Artifact) -> str:
    artifact.forge(record=lambda record: record["contract"].update(LD_PRELOAD="evil.so"))
    return "oci:./cache:v1"


TROUBLE: dict[str, tuple[Callable[[Artifact], str], int]] = {
    "no reference": (lambda _: "", 2),
    "no valid reference": (lambda _: "oci:./cache", 2),
    "no such layout": (lambda _: "oci:./nowhere:v1", 12),
    "no such tag": (lambda _: "oci:./cache:v9", 12),
    "registry down": (lambda _: f"127.0.0.1:{free_port()}/acme/cache:v1", 10),
    "another host's": (for_another_host, 13),
    "damaged manifest": (lambda artifact: damaged(artifact, "manifest"), 20),
    "damaged config": (lambda artifact: damaged(artifact, "config"), 20),
    "damaged layer": (lambda artifact: damaged(artifact, "last layer"), 20),
    "hostile record": (setting_ld_preload, 20),
}


@pytest.mark.parametrize(("prepare", "code"), TROUBLE.values(), ids=TROUBLE)
def test_the_command_starts_without_a_cache(
    project: Project, artifact: Artifact, prepare: Callable[[Artifact], str], code: int
) -> None:
    reference = prepare(artifact)
    outcome = project.glowplug("run", reference, "--", *COMMAND, "7", "--strict", "--", "x")
    assert started_cold(outcome, 7), outcome
    assert outcome.stdout == "serving 7 --strict -- x\n"
    if code == 20:
        assert outcome.said("warning: cache refused: "), outcome.stderr
    assert project.leftovers() == []
    project.glowplug("run", "--strict", reference, "--", *COMMAND, "0").refused(code)
    assert project.leftovers() == []


def started_cold(outcome: Outcome, status: int) -> bool:
    return (
        outcome.code == status
        and len(outcome.said("warning: ")) == 1
        and outcome.said("starting cold") == ["starting cold"]
        and not outcome.said("error: ")
        and "Traceback" not in outcome.stderr
    )


def test_a_denied_pull(project: Project, private_registry: RegistryService) -> None:
    reference = f"{private_registry.host}/acme/cache:v1"
    assert started_cold(project.glowplug("run", reference, "--", *COMMAND, "7"), 7)
    project.glowplug("run", "--strict", reference, "--", *COMMAND, "7").refused(11)


@pytest.mark.parametrize("python", ["/nonexistent/python", "/bin/true", "/bin/false"])
def test_a_python_that_is_none(project: Project, artifact: Artifact, python: str) -> None:
    outcome = project.glowplug("run", "oci:./cache:v1", "--python", python, "--", *COMMAND, "0")
    assert started_cold(outcome, 0), outcome
    project.glowplug("run", "oci:./cache:v1", "--strict", "--python", python, "--", *COMMAND, "0").refused(31)


def test_a_taken_destination(project: Project, artifact: Artifact) -> None:
    outcome = project.glowplug("run", "oci:./cache:v1", "--dest", ".", "--", *COMMAND, "0")
    assert started_cold(outcome, 0), outcome
    project.glowplug("run", "oci:./cache:v1", "--dest", ".", "--strict", "--", *COMMAND, "0").refused(
        2, "empty"
    )


@pytest.mark.parametrize("command", ["no-such-command", "./model.py", "."])
def test_a_command_that_cannot_start(project: Project, artifact: Artifact, command: str) -> None:
    project.glowplug("run", "oci:./cache:v1", "--", command, "x").refused(2, f"cannot start {command}")
    outcome = project.glowplug("run", "oci:./cache:v9", "--", command, "x")
    outcome.refused(2, f"cannot start {command}")
    assert len(outcome.said("warning: ")) == 1


def test_the_command_gets_the_signals_that_it_would_have(project: Project, artifact: Artifact) -> None:
    outcome = project.glowplug("run", "oci:./cache:v1", "--", "grep", "SigIgn", "/proc/self/status")
    name, mask = outcome.stdout.split()
    # The C library keeps signals 32 and 33 to itself: whoever started the tests may have left them ignored.
    assert (name, int(mask, 16) & ~(0b11 << 31)) == ("SigIgn:", 0)


@pytest.mark.parametrize(
    "env",
    [
        {"HOME": None},
        {"HOME": "/proc/nowhere"},
        {"HOME": "relative", "XDG_CACHE_HOME": "relative"},
        {"XDG_CACHE_HOME": "/dev/null"},
        {"HOME": None, "TMPDIR": "/nonexistent"},
        {"LANG": "C", "LC_ALL": "C"},
        {"PATH": None},
        {"TERM": "dumb", "NO_COLOR": "1", "CI": "true"},
        {"PYTHONIOENCODING": "ascii:strict"},
        {"ODD": b"\xff\xfe"},
    ],
    ids=str,
)
def test_surroundings_that_a_container_may_have(
    project: Project, artifact: Artifact, env: dict[str, str | bytes | None]
) -> None:
    command = [
        sys.executable,
        "-c",
        "import os; print(os.path.isfile(os.environ['GLOWPLUG_CACHE'] + '/record.json'))",
    ]
    outcome = project.glowplug("run", "oci:./cache:v1", "--strict", "--", *command, env=env)
    assert (outcome.code, outcome.stdout) == (0, "True\n"), outcome.stderr


@pytest.mark.parametrize("redirection", ["<&-", "2>&-", "<&- 2>&-", "2>/dev/full", "<&- >&- 2>&-"])
def test_streams_that_are_closed_or_full(project: Project, artifact: Artifact, redirection: str) -> None:
    for reference in ("oci:./cache:v1", "oci:./cache:v9"):
        command = (
            f'"$0" -m glowplug run {reference} -- sh -c \'echo started > "{project.folder}/started"; exit 7\''
        )
        done = subprocess.run(
            ["sh", "-c", f"{command} {redirection}", sys.executable],
            cwd=project.folder,
            env=project.environ(),
            check=False,
        )
        assert done.returncode == 7
        (project.folder / "started").unlink()
