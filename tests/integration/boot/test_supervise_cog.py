"""Cog's own server under a supervisor, stopped in each of its states."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from integration.boot.supervisors import state_of, until
from integration.cog_server import call
from integration.services import free_port

PREDICT = """
import os
import time

from cog import BasePredictor


class Predictor(BasePredictor):
    def setup(self) -> None:
        with open("worker", "w") as file:
            file.write(f"{os.getpid()}\\n")
        if os.environ["SETUP"] == "slow":  # as when it compiles
            time.sleep(1000)
        if os.environ["SETUP"] == "fail":
            raise RuntimeError("no weights")

    def predict(self, seconds: float) -> str:
        with open("predicting", "w") as file:
            file.write("now\\n")
        time.sleep(seconds)
        return "the answer"
"""


class Cog:
    def __init__(self, supervised, setup, **options):
        self.port = free_port()
        (supervised.folder / "predict.py").write_text(PREDICT)
        command = (
            "env", f"PORT={self.port}", f"SETUP={setup}", "COG_PREDICT_TYPE_STUB=predict.py:Predictor",
            "python", "-m", "cog.server.http",
        )  # fmt: skip
        url = f"http://127.0.0.1:{self.port}/health-check"
        self.supervisor = supervised(*command, url=url, **options)

    @property
    def worker(self):
        """The process that runs the predictor."""
        return int(self.supervisor.wrote("worker"))

    def predict(self, seconds):
        return call(self.port, "/predictions", {"input": {"seconds": seconds}})

    def stop(self):
        """Ask it to stop, and return its status."""
        self.supervisor.process.send_signal(signal.SIGTERM)
        status = self.supervisor.end()
        assert state_of(self.worker) == ""
        return status


@pytest.fixture
def cog(supervised):
    return lambda setup, **options: Cog(supervised, setup, **options)


def test_idle(cog):
    server = cog("quick")
    server.supervisor.await_event("on_ready")
    assert server.predict(0)["output"] == "the answer"
    assert server.stop() == 0
    ending = server.supervisor.ending
    assert (ending["was_ready"], ending["failed_setup"], ending["stopped"]) == (True, False, True)
    assert ["on_stopped", True] in server.supervisor.events


def test_during_a_prediction(cog):
    """It is answered first."""
    server, answers = cog("quick"), []
    server.supervisor.await_event("on_ready")
    client = threading.Thread(target=lambda: answers.append(server.predict(1.0)))
    client.start()
    server.supervisor.wrote("predicting")
    assert server.stop() == 0
    client.join()
    assert [(answer["status"], answer["output"]) for answer in answers] == [("succeeded", "the answer")]


def test_during_setup(cog):
    """The server leaves at once, with 0, and leaves its worker behind."""
    server = cog("slow", grace_s=4.0)
    worker = server.worker
    assert state_of(worker) != ""
    assert server.stop() == 0
    ending = server.supervisor.ending
    assert (ending["was_ready"], ending["failed_setup"], ending["stopped"]) == (False, False, True)
    # The worker was gone when there was still time for the rest.
    assert ["on_stopped", True] in server.supervisor.events


def test_after_a_failed_setup(cog):
    """The server stays, and says so to those who ask, until it is stopped. It ends with 0."""
    server = cog("fail")
    server.supervisor.await_event("on_failed")
    assert server.stop() == 0
    ending = server.supervisor.ending
    assert (ending["was_ready"], ending["failed_setup"], ending["stopped"]) == (False, True, True)


def test_after_a_failed_setup_that_can_be_tried_in_another_way(cog):
    server = cog("fail", on_failed="end it")
    assert server.supervisor.end() == 0
    ending = server.supervisor.ending
    assert (ending["was_ready"], ending["failed_setup"], ending["stopped"]) == (False, True, False)


def test_worker_killed_while_a_prediction_runs(cog):
    """Whatever the server makes of it, everything is gone in the end."""
    server, answers = cog("quick"), []
    server.supervisor.await_event("on_ready")

    def ask():
        try:
            answers.append(server.predict(1000)["status"])
        except OSError as error:
            answers.append(str(error))

    client = threading.Thread(target=ask)
    client.start()
    server.supervisor.wrote("predicting")
    os.kill(server.worker, signal.SIGKILL)
    until(lambda: answers)
    server.stop()
    client.join()
