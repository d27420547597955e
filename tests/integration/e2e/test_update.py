"""A server compiles what its artifact lacks; the next one does not have to."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from integration.cog_server import await_ready, call
from integration.e2e.commands import Probe, Shell
from integration.e2e.projects import write_spec
from integration.e2e.repositories import copy
from integration.e2e.serving import serving
from integration.services import RegistryService, free_port

COG_YAML = """\
build: {python_version: "3.11"}
predict: predict.py:Predictor
"""

PREDICT = """
import torch
from cog import BasePredictor


class Predictor(BasePredictor):
    def setup(self):
        self.square = torch.compile(lambda x: x @ x)

    def predict(self, size: int) -> float:
        with torch.no_grad():
            return self.square(torch.ones(size, size)).sum().item()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "squares"
    folder.mkdir()
    (folder / "cog.yaml").write_text(COG_YAML)
    (folder / "predict.py").write_text(PREDICT)
    write_spec(folder, {"run": {"cog": ".", "inputs": [{"size": 4}]}})
    return folder


def test_what_a_server_compiles_the_next_one_finds(
    folder: Path, registry: RegistryService, shell: Shell, tmp_path: Path
) -> None:
    shell.glowplug("build", "-f", folder / "glowplug.yaml")
    repository = registry.repository("e2e/squares")
    copy(folder / "cache", repository)
    first = _serve(f"{repository}:v1", folder, shell, tmp_path / "first")
    assert (first.fx_hits, first.fx_misses) == (1, 1)  # the size that was captured, and the one that was not
    second = _serve(f"{repository}:v1", folder, shell, tmp_path / "second")
    assert (second.total, second.fx_hits, second.aot_hits) == (0, 2, 2)
    (artifact,) = shell.glowplug("inspect", f"{repository}:v1", "--json").json["artifacts"]
    (update,) = artifact["record"]["updates"]
    assert update["files"] > 0


def _serve(reference: str, folder: Path, shell: Shell, work: Path):  # type: ignore[no-untyped-def]
    """Start, ask for the size that was captured and for another one, stop; return what was compiled."""
    work.mkdir()
    probe, port = Probe(work / "events"), free_port()
    env = shell.environ(PORT=str(port), COG_PREDICT_TYPE_STUB="predict.py:Predictor", **probe.environ())
    ready = ["--ready", f"http://127.0.0.1:{port}/health-check"]
    with serving([reference, *ready, "--update", "direct"], folder, env, work / "log") as server:
        await_ready(server, port, work / "log")
        assert call(port, "/predictions", {"input": {"size": 4}})["output"] == 4**3
        assert call(port, "/predictions", {"input": {"size": 6}})["output"] == 6**3
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0, (work / "log").read_text()
    return probe.work()
