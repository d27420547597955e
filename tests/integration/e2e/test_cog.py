"""A Cog project: built, proved, and served by Cog's own server."""

from __future__ import annotations

import base64
import json
import signal
from pathlib import Path

import pytest

from integration.cog_server import await_ready, call
from integration.e2e.commands import Probe, Shell
from integration.e2e.conftest import Built
from integration.e2e.projects import Project, write_spec
from integration.e2e.serving import serving
from integration.services import free_port

COG_YAML = """\
build: {python_version: "3.11"}
environment: ["INK=#"]
predict: predict.py:Predictor
"""

PEN = """
import os


def draw(lengths):
    return "\\n".join(os.environ["INK"] * int(length) for length in lengths)
"""

PREDICT = """
import json
import tempfile
from typing import AsyncIterator

import torch
from cog import BasePredictor, Input, Path

import pen


class Predictor(BasePredictor):
    def setup(self, weights: str):
        self.weights = torch.tensor(json.loads(Path(weights).read_text()))
        self.mix = torch.compile(lambda x, w: x @ w)

    async def predict(
        self,
        numbers: Path = Input(description="A square matrix as JSON"),
        gain: float = Input(default=2.0),
        copies: int = Input(default=2, ge=1),
    ) -> AsyncIterator[Path]:
        x = torch.tensor(json.loads(numbers.read_text()))
        for _ in range(copies):
            x = self.mix(x, self.weights) * gain
            file = Path(tempfile.mkdtemp()) / "drawing.txt"
            file.write_text(pen.draw(x.flatten().tolist()))
            yield file
"""

NUMBERS = [[1.0, 2.0], [3.0, 4.0]]
WEIGHTS = [[0.0, 1.0], [1.0, 0.0]]  # swaps the columns
DRAWINGS = ["####\n##\n########\n######", "####\n########\n############\n################"]


@pytest.fixture(scope="module")
def drawing(workspace: Path) -> Built:
    folder = workspace / "drawing"
    folder.mkdir()
    (folder / "cog.yaml").write_text(COG_YAML)
    (folder / "pen.py").write_text(PEN)
    (folder / "predict.py").write_text(PREDICT)
    (folder / "numbers.json").write_text(json.dumps(NUMBERS))
    (folder / "weights.json").write_text(json.dumps(WEIGHTS))
    inputs = [{"numbers": "numbers.json"}, {"numbers": "numbers.json", "gain": 1.0, "copies": 1}]
    write_spec(folder, {"run": {"cog": ".", "weights": "weights.json", "inputs": inputs}})
    done = Shell(workspace / "drawing-shell").glowplug("build", "-f", folder / "glowplug.yaml", "--json")
    return Built(Project(folder), folder / "cache", done)


def test_a_cog_project_is_built_and_proved(drawing: Built) -> None:
    result = drawing.done.json
    proof = result["proof"]
    assert result["outcome"] == "published"
    assert (proof["cold"]["work"]["fx_misses"], proof["cold"]["work"]["aot_misses"]) == (1, 1)
    assert (proof["warm"]["work"]["total"], proof["warm"]["work"]["fx_hits"]) == (0, 1)
    # The files that were yielded: two for the first input, one for the second.
    assert [(c["equal"], c["compared"]) for c in proof["comparisons"]] == [(True, 2), (True, 1)]
    assert proof["shortfalls"] == proof["new_entries"] == []


def test_cogs_server_starts_warm_under_glowplug_run(drawing: Built, shell: Shell, tmp_path: Path) -> None:
    probe, port = Probe(tmp_path / "events"), free_port()
    env = shell.environ(
        PORT=str(port),
        COG_PREDICT_TYPE_STUB="predict.py:Predictor",
        COG_WEIGHTS="weights.json",
        INK="#",
        **probe.environ(),
    )
    with serving([f"oci:{drawing.layout}:v1"], drawing.project.folder, env, tmp_path / "log") as server:
        await_ready(server, port, tmp_path / "log")
        numbers = base64.b64encode(json.dumps(NUMBERS).encode()).decode()
        answer = call(port, "/predictions", {"input": {"numbers": f"data:application/json;base64,{numbers}"}})
        assert answer["status"] == "succeeded"
        files = [base64.b64decode(file.partition(",")[2]).decode() for file in answer["output"]]
        assert files == DRAWINGS
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
    work = probe.work()
    assert work.processes >= 3  # glowplug, the server, and the server's worker
    assert (work.total, work.blind_processes) == (0, 0)
    assert (work.fx_hits, work.aot_hits) == (1, 1)
