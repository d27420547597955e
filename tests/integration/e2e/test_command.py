"""Servers as workloads: two workers that share a cache, and Cog's own server."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.e2e.commands import Shell
from integration.e2e.conftest import Built
from integration.e2e.projects import Project, write_spec
from integration.services import free_port

# One worker is forked and one is spawned, and they take requests in turn, so that two requests reach both.
SERVER = """
import json
import multiprocessing
import os
import socket
import sys
from http.server import BaseHTTPRequestHandler

import torch

multiply = torch.compile(lambda x: x @ x)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        n = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["n"]
        output = multiply(torch.full((n, n), 0.5))
        body = json.dumps({"id": os.urandom(4).hex(), "output": output.tolist()}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def work(listener, my_turn, next_turn):
    while True:
        my_turn.recv()
        connection, peer = listener.accept()
        Handler(connection, peer, None)
        connection.close()
        next_turn.send("yours")


if __name__ == "__main__":
    with open("served", "a") as served:
        served.write("x")
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    (a, to_a), (b, to_b) = (multiprocessing.Pipe(duplex=False) for _ in range(2))
    multiprocessing.get_context("fork").Process(target=work, args=(listener, a, to_b), daemon=True).start()
    multiprocessing.get_context("spawn").Process(target=work, args=(listener, b, to_a), daemon=True).start()
    to_a.send("yours")
    print("both workers are there", flush=True)
    multiprocessing.connection.wait([child.sentinel for child in multiprocessing.active_children()])
"""

PREDICT = """
import torch
from cog import BasePredictor, Input, Path


class Predictor(BasePredictor):
    def setup(self):
        self.multiply = torch.compile(lambda x: x @ x)

    def predict(self, n: int = Input(ge=1)) -> list[float]:
        return self.multiply(torch.full((n, n), 0.5)).flatten().tolist()
"""


@pytest.fixture(scope="module")
def two_workers(workspace: Path) -> Built:
    folder = workspace / "two-workers"
    folder.mkdir()
    (folder / "server.py").write_text(SERVER)
    (folder / "served").touch()
    (folder / "served").chmod(0o666)
    port = free_port()
    run = {
        "command": f"python server.py {port}",
        "ready": {"log": "both workers"},
        "url": f"http://127.0.0.1:{port}",
        "requests": [{"path": "/run", "json": {"n": 4}}, {"path": "/run", "json": {"n": 4}}],
    }
    write_spec(folder, {"run": run, "prove": {"steady_runs": 2}})
    done = Shell(workspace / "two-workers-shell").glowplug("build", "-f", folder / "glowplug.yaml", "--json")
    return Built(Project(folder), folder / "cache", done)


def test_compile_work_counts_in_every_worker(two_workers: Built) -> None:
    proof = two_workers.done.json["proof"]
    cold, warm = proof["cold"]["work"], proof["warm"]["work"]
    # Each worker traces once. When the second one asks, the first has filled the cache.
    assert (cold["frames"], cold["fx_misses"], cold["fx_hits"]) == (2, 1, 1)
    assert (warm["frames"], warm["fx_misses"], warm["fx_hits"]) == (2, 0, 2)
    assert (warm["total"], warm["aot_hits"], warm["blind_processes"]) == (0, 2, 0)
    assert proof["shortfalls"] == proof["new_entries"] == []
    assert proof["eager"]["work"]["frames"] == 0


def test_answers_are_compared_without_their_ids(two_workers: Built) -> None:
    proof = two_workers.done.json["proof"]
    assert [(c["equal"], c["compared"]) for c in proof["comparisons"]] == [(True, 16), (True, 16)]
    assert proof["conditions"]["not compared"].startswith("id, ")
    assert "entry" not in proof["conditions"]


def test_a_server_s_artifact_is_there_the_next_time(two_workers: Built, shell: Shell) -> None:
    spec = two_workers.project.spec
    before = (two_workers.project.folder / "served").read_text()
    assert before == "xxx"
    done = shell.glowplug("build", "-f", spec, "--json")
    assert done.json["outcome"] == "present"
    assert (two_workers.project.folder / "served").read_text() == before


def test_an_artifact_lists_its_requests(two_workers: Built, shell: Shell) -> None:
    done = shell.glowplug("inspect", f"oci:{two_workers.layout}:{two_workers.tag}", "--json")
    request = {"method": "POST", "path": "/run", "json": {"n": 4}}
    assert done.json["artifacts"][0]["record"]["coverage"] == [request, request]


def test_cogs_server_is_built_over_http(workspace: Path) -> None:
    # Cog puts every prediction into a folder below this one, which belongs to the user of the first server; the replay
    # has another one.
    predictions = Path("/tmp/coglet/predictions")
    predictions.mkdir(parents=True, exist_ok=True)
    predictions.chmod(0o1777)
    folder = workspace / "cog-server"
    folder.mkdir()
    (folder / "predict.py").write_text(PREDICT)
    port = free_port()
    run = {
        "command": ["python", "-m", "cog.server.http"],
        "ready": f"http://127.0.0.1:{port}/health-check",
        "env": {"PORT": str(port), "COG_PREDICT_TYPE_STUB": "predict.py:Predictor"},
        "requests": [{"path": "/predictions", "json": {"input": {"n": 3}}}],
    }
    write_spec(folder, {"run": run})
    done = Shell(workspace / "cog-server-shell").glowplug("build", "-f", folder / "glowplug.yaml", "--json")
    proof = done.json["proof"]
    assert (proof["cold"]["work"]["fx_misses"], proof["warm"]["work"]["fx_hits"]) == (1, 1)
    assert (proof["warm"]["work"]["total"], proof["warm"]["work"]["blind_processes"]) == (0, 0)
    assert proof["comparisons"][0]["equal"]
    assert proof["comparisons"][0]["compared"] >= 9


def test_a_server_that_fails_is_shown_with_its_log_and_request(workspace: Path) -> None:
    folder = workspace / "failing-server"
    folder.mkdir()
    (folder / "server.py").write_text(SERVER.replace("output = multiply", "n[0]; output = multiply"))
    port = free_port()
    run = {
        "command": ["python", "server.py", str(port)],
        "ready": {"log": "both workers"},
        "url": f"http://127.0.0.1:{port}",
        "requests": [{"path": "/run", "json": {"n": 4}}],
    }
    write_spec(folder, {"run": run})
    shell = Shell(workspace / "failing-server-shell")
    done = shell.glowplug("build", "-f", folder / "glowplug.yaml", status=30)
    assert f"python server.py {port} failed in the cold run at requests[0]: the server " in done.stderr
    assert "TypeError: 'int' object is not subscriptable" in done.stderr
    assert not list((folder / "cache").glob("blobs/*/*"))
