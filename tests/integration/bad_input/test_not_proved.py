"""A cache that a replay does not bear out is not published, or only with the shortfall on record."""

from __future__ import annotations

import json

from integration.bad_input.project import Project
from integration.bad_input.test_nothing_captured import HEAD


def test_a_graph_that_differs_in_every_process_and_an_output_that_cannot_be_compared(
    project: Project,
) -> None:
    project.model(
        f"{HEAD}class Answer: pass\n"
        "rows = 2 + os.getpid() % 997\n"
        "f = torch.compile(lambda x: x @ x.T)\n"
        "def warm():\n"
        "    f(torch.ones(rows, 2))\n"
        "    return [Answer(), {'more': Answer()}]\n"
    )
    outcome = project.build()
    assert outcome.said("warning: inputs[0]: the output holds nothing that can be compared"), outcome.stderr
    outcome.refused(5, "the replay compiled again: 1 Inductor miss", "inductor/fxgraph/", "--allow-partial")
    assert project.untouched()


def test_a_partial_artifact_says_what_falls_short(project: Project) -> None:
    project.model(
        f"{HEAD}weights = torch.tensor(list(os.urandom(16))).float().reshape(4, 4)\n"
        "f = torch.compile(lambda x: x @ x)\n"
        "def warm(): return f(weights)\n"
    )
    outcome = project.build("--allow-partial", "--json")
    assert outcome.code == 0, outcome.stderr
    assert outcome.said("warning: inputs[0]: output differs"), outcome.stderr
    assert "output differs" in json.loads(outcome.stdout)["proof"]["shortfalls"][0]
    shown = json.loads(project.glowplug("inspect", "oci:./cache:v1", "--json").stdout)
    record = shown["artifacts"][0]["record"]
    assert "output differs" in record["proof"]["shortfalls"][0]
    shown_to_people = project.glowplug("inspect", "oci:./cache:v1").stdout
    assert "PARTIAL" in shown_to_people
    assert project.leftovers() == []
