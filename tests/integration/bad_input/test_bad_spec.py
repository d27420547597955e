"""A spec that cannot be meant: everything that is wrong with it, before anything runs."""

from __future__ import annotations

import pytest

from integration.bad_input.project import SPEC, Project

PYTHON_RUN = "run: {python: 'model:warm'}\nartifact: oci:./cache\n"


def test_every_problem_of_a_spec_is_shown_with_its_line_and_path(project: Project) -> None:
    project.spec(
        "model: {name: Tiny Model, version: 1.10}\n"
        "run:\n"
        "  pyhton: model:warm\n"
        "  timeout_s: soon\n"
        "  inputs: [{when: 2024-01-01}]\n"
        "artifact: ghcr.io/Acme/Cache\n"
    )
    outcome = project.build()
    assert outcome.code == 3
    assert len(outcome.said("error: ")) == 1
    for expected in (
        "glowplug.yaml:1: model.name",
        "glowplug.yaml:1: model.version: 1.10 was read by YAML as the number 1.1; quote it",
        "glowplug.yaml:3: run.pyhton: unknown key; did you mean 'python'?",
        "glowplug.yaml:4: run.timeout_s",
        "glowplug.yaml:5: run.inputs[0].when",
        "glowplug.yaml:6: artifact",
    ):
        assert expected in outcome.stderr
    assert outcome.said("hint: ")
    assert not project.model_ran
    assert project.untouched()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "glowplug.yaml is empty"),
        ("- a list\n", "must be a mapping"),
        ("model: {name: tiny\n", "is not valid YAML"),
        ("model: {name: tiny, version: v1}\n\tx: 1\n", "a tab cannot indent YAML"),
        (f"model: {{name: tiny, version: '${{NOWHERE}}'}}\n{PYTHON_RUN}", "NOWHERE"),
        (f"model: {{name: tiny, version: {{file: weights.bin}}}}\n{PYTHON_RUN}", "weights.bin"),
        (f"model: {{name: tiny, version: {{git: describe}}}}\n{PYTHON_RUN}", "not in a git repository"),
        ("model: {name: tiny, version: v1}\nrun: {cog: .}\nartifact: oci:./cache\n", "cog.yaml"),
        (
            "model: {name: tiny, version: v1}\nrun: {python: 'model:warm', dir: gone}\nartifact: oci:./cache\n",
            "run.dir",
        ),
        (
            "model: {name: tiny, version: v1}\nrun: {python: 'model:warm', dir: model.py}\nartifact: oci:./cache\n",
            "run.dir",
        ),
    ],
)
def test_a_spec_that_cannot_be_read_is_one_sentence(project: Project, text: str, words: str) -> None:
    project.spec(text)
    outcome = project.build()
    outcome.refused(3, words)
    assert not project.model_ran
    assert project.untouched()


@pytest.mark.parametrize("name", ["gone.yaml", ".", "glowplug.yaml/x"])
def test_a_spec_that_is_not_there_is_named(project: Project, name: str) -> None:
    project.build("--file", name).refused(3, name)


def test_bytes_that_are_no_text(project: Project) -> None:
    (project.folder / "glowplug.yaml").write_bytes(SPEC.encode() + b"\xff\xfe")
    project.build().refused(3, "not UTF-8")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["build", "--artifact", "ghcr.io/acme/cache:v1"], "carries a tag"),
        (["build", "--version", "///"], "--version"),
    ],
)
def test_a_flag_that_replaces_the_spec_is_held_to_the_same_rules(
    project: Project, words: list[str], complaint: str
) -> None:
    project.glowplug(*words).refused(3, complaint)


@pytest.mark.parametrize(
    "words",
    [
        ["build", "--pretend-target", "device_arch"],
        ["build", "--pretend-target", "device_arhc=avx2"],
        ["build", "--timeout", "soon"],
        ["build", "--timeout", "-1"],
        ["build", "--rebiuld"],
        ["biuld"],
        ["fetch", "oci:./cache:v1"],
        ["run", "oci:./cache:v1"],
        ["run", "oci:./cache:v1", "--"],
        ["index", "oci:./cache"],
        ["index", "oci:./cache:v1", "v1"],
    ],
)
def test_a_command_line_that_cannot_be_meant(project: Project, words: list[str]) -> None:
    project.glowplug(*words).refused(2)
    assert project.untouched()


@pytest.mark.parametrize(
    "reference",
    [
        "oci:./cache",
        "oci::v1",
        "oci:./cache:not a tag",
        "flux-cache:v1",
        "ghcr.io/Acme/cache:v1",
        "ghcr.io/acme/cache",
        "ghcr.io/acme/cache:",
        "ghcr.io/acme/cache@sha256:12",
        "https://ghcr.io/acme/cache:v1",
        "ghcr.io/acme/cache:v1 ",
        "",
    ],
)
@pytest.mark.parametrize("command", ["fetch", "inspect"])
def test_a_reference_that_is_none(project: Project, command: str, reference: str) -> None:
    place = ["--dest", "out"] if command == "fetch" else []
    project.glowplug(command, reference, *place).refused(2)
    assert not (project.folder / "out").exists()
