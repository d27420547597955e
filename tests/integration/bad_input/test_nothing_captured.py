"""A run that leaves no cache says why, and before it costs anything where that can be known."""

from __future__ import annotations

import pytest

from integration.bad_input.project import Outcome, Project, finished

# The run without torch.compile is left out, to save time.
HEAD = """\
import os
if os.environ.get("TORCH_COMPILE_DISABLE"): raise SystemExit("not now")
import torch
"""
WITHOUT = "def f(x): return x @ x\ndef warm(): return f(torch.ones(2, 2))"
FALLING_BACK = """\
import torch._dynamo
def f(x):
    torch._dynamo.graph_break()
    return x.tolist()
f = torch.compile(f)
def warm(): return f(torch.ones(2))
"""
SWITCHED_OFF = """\
import torch._inductor.config
torch._inductor.config.force_disable_caches = True
f = torch.compile(lambda x: x @ x)
def warm(): return f(torch.ones(2, 2))
"""
UNCALLED = "f = torch.compile(lambda x: x @ x)\ndef warm(): return torch.ones(2)"
OTHER = "f = torch.compile(lambda x: x @ x, backend='%s')\ndef warm(): return f(torch.ones(2, 2))"
NOTHING = {
    "nothing is compiled": (WITHOUT, ["never called torch.compile", "setup()"]),
    "nothing compiled is called": (UNCALLED, ["no compiled function was called", "inputs"]),
    "backend eager": (OTHER % "eager", ["no graph reached Inductor", "backend='inductor'"]),
    "backend aot_eager": (OTHER % "aot_eager", ["no graph reached Inductor", "backend='inductor'"]),
    "everything falls back": (FALLING_BACK, ["fell back to eager", "graph_break", "TORCH_LOGS=graph_breaks"]),
    "caches are switched off inside": (SWITCHED_OFF, ["stored no entry", "force_disable_caches"]),
}


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Project, Outcome]]:
    """A build of each of these models; all at once, which saves half of the time."""
    projects = {name: Project(tmp_path_factory.mktemp("nothing")) for name in NOTHING}
    for name, project in projects.items():
        project.model(HEAD + NOTHING[name][0])
    started = {name: project.start("build") for name, project in projects.items()}
    return {name: (projects[name], finished(build)) for name, build in started.items()}


@pytest.mark.parametrize("name", NOTHING)
def test_a_run_without_a_cache_says_why(builds: dict[str, tuple[Project, Outcome]], name: str) -> None:
    project, outcome = builds[name]
    outcome.refused(4, "nothing was captured", *NOTHING[name][1])
    assert project.untouched()


SWITCHES = {
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
    "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
    "TORCH_COMPILE_DISABLE": "1",
    "TORCHDYNAMO_DISABLE": "1",
}


@pytest.mark.parametrize(("name", "value"), SWITCHES.items())
def test_a_variable_that_turns_it_off_is_found_before_the_run(
    project: Project, name: str, value: str
) -> None:
    project.build(env={name: value}).refused(4, f"{name}={value}", f"unset {name}")
    project.spec_with(env=f"{{{name}: '{value}'}}")
    project.build().refused(4, f"{name}={value}")
    assert not project.model_ran
    assert project.untouched()
