"""The runner in the interpreter of a model. Each run imports torch, so one run answers many questions."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import glowplug
from glowplug.agent.outputs import load

RUNNER = Path(glowplug.__file__).parent / "agent" / "runner.py"

MODEL = """
import random
import sys
import outputs
import runner

assert "torch" not in sys.modules, "a model must be the first to import torch"
import numpy
import torch

calls = []

def answer(*arguments, **options):
    calls.append(1)
    what = options.pop("what", None) or (arguments[0] if arguments else "nothing")
    if what == "async":
        return coroutine()
    if what == "generator":
        return (n for n in range(3))
    if what == "async generator":
        return numbers()
    if what == "draws":
        return [random.random(), float(numpy.random.rand()), torch.rand(2)]
    if what == "own modules":
        return [outputs.OWNER, runner.OWNER, sys.path[0], "/glowplug/agent" in str(sys.path)]
    if what == "arguments":
        return [sys.argv, __name__]
    if what == "calls":
        return len(calls)
    if what == "fail":
        raise ValueError("on purpose " + "x" * 5000)
    return [list(arguments), options]

async def coroutine():
    return "from a coroutine"

async def numbers():
    for n in range(3):
        yield n

class Model:
    answer = staticmethod(answer)
"""

INPUTS = {
    "mapping": {"what": "mapping", "x": 1},
    "empty mapping": {},
    "list": ["list", 2, None],
    "empty list": [],
    "text": "text",
    "number": 7,
    "nothing": None,
    "async": {"what": "async"},
    "generator": {"what": "generator"},
    "async generator": {"what": "async generator"},
    "draws": {"what": "draws"},
    "draws again": {"what": "draws"},
    "own modules": {"what": "own modules"},
    "arguments": {"what": "arguments"},
}


class Run:
    """One run of the runner: its status, what it printed, and what it wrote."""

    def __init__(self, folder, inputs, target="model:answer", reference=None, **env):
        self.folder = folder
        self.inputs = list(inputs)
        (folder / "outputs").mkdir(parents=True)
        (folder / "model.py").write_text(MODEL)
        for name in ("outputs", "runner"):
            (folder / f"{name}.py").write_text("OWNER = 'the model'\n")
        job = {
            "workload": {"type": "python", "target": target},
            "inputs": list(inputs.values()),
            "seed": 7,
            "steady_runs": 2,
            "steady_budget_s": 20.0,
            "tolerance": 1e-3,
            "result": str(folder / "result.json"),
            "outputs": str(folder / "outputs"),
            "reference": reference and str(reference),
        }
        (folder / "job.json").write_text(json.dumps(job))
        done = subprocess.run(
            [sys.executable, str(RUNNER), str(folder / "job.json")],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": "", **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.status, self.log = done.returncode, done.stdout
        self.result = json.loads((folder / "result.json").read_text())

    def leaves(self, name):
        return load(self.folder / "outputs" / f"{self.inputs.index(name)}.pt")

    def values(self, name):
        """The leaves as plain values, without the lines that describe their structure."""
        plain = [
            content.tolist() if isinstance(content, torch.Tensor) else content
            for _, _, content in self.leaves(name)
        ]
        return [value for value in plain if " of " not in str(value)]


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return Run(tmp_path_factory.mktemp("good"), INPUTS)


@pytest.fixture(scope="module")
def failed(tmp_path_factory, good):
    inputs = {"draws": {"what": "draws"}, "fail": {"what": "fail"}, "never": {}}
    folder = tmp_path_factory.mktemp("failed")
    return Run(folder, inputs, "model:Model.answer", PYTHONSAFEPATH="1", PYTHONHASHSEED="1")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("mapping", [1]),
        ("empty mapping", []),
        ("list", ["'list'", 2, "None"]),
        ("empty list", []),
        ("text", ["'text'"]),
        ("number", [7]),
        ("nothing", []),
        ("async", ["'from a coroutine'"]),
        ("generator", [0, 1, 2]),
        ("async generator", [0, 1, 2]),
        ("own modules", ["'the model'", "'the model'", "''", "False"]),
        ("arguments", ["'model:answer'", "'model'"]),
    ],
)
def test_each_input_reaches_the_callable(good, name, values):
    assert good.values(name) == values


def test_a_whole_run_is_complete(good):
    result = good.result
    assert (good.status, result["complete"], result.get("error")) == (0, True, None), good.log
    assert (
        0
        < result["imported_at_s"]
        <= result["ready_at_s"]
        <= result["first_answer_s"]
        <= result["warmed_at_s"]
    )
    assert len(result["inputs"]) == len(INPUTS)
    assert result["first_answer_s"] == result["inputs"][0]["answered_at_s"]
    assert result["torch"]["torch"] == torch.__version__
    assert not result["torch"]["compiled"]


def test_every_input_is_repeated_for_its_latency(good):
    for entry in good.result["inputs"]:
        assert entry["first_call_s"] >= 0
        assert entry["steady_s"] >= 0
        assert entry["repeats"]["equal"], entry


def test_every_call_draws_from_the_seed(good, failed):
    drawn = good.values("draws")
    assert len(drawn) == 3
    assert good.values("draws again") == drawn
    assert failed.values("draws") == drawn


def test_a_failure_leaves_what_was_done(failed):
    result = failed.result
    assert (failed.status, result["complete"]) == (1, False)
    assert len(result["inputs"]) == 1
    assert "first_answer_s" in result
    assert "warmed_at_s" not in result
    assert result["error"].startswith("ValueError: on purpose")
    assert len(result["error"]) < 3000


def test_a_failure_s_traceback_is_the_model_s_own(failed):
    assert 'model.py", line' in failed.log
    assert "ValueError: on purpose" in failed.log
    assert str(RUNNER) not in failed.log
