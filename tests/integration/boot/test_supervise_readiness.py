"""How a supervisor learns that a real server is ready, or never will be."""

import json
import signal
import socket
import subprocess
import sys

import pytest

from integration.boot.supervisors import until
from integration.services import free_port

# Answers with what the file `answer` says: a status code, and a JSON body or none.
SERVER = """
import http.server, os, pathlib, sys
file = pathlib.Path("answer")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        code, _, body = file.read_text().partition(" ")
        pathlib.Path("asked").write_text(self.path + "\\n")
        self.send_response(int(code))
        self.send_header("Content-Type", "application/json" if body else "text/plain")
        self.end_headers()
        self.wfile.write(body.encode())
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
if len(sys.argv) > 2:
    import ssl
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("cert.pem", "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


class Answers:
    def __init__(self, folder):
        self.folder = folder

    def give(self, code, **body):
        """Answer so from now on."""
        new = self.folder / "new"
        new.write_text(f"{code} {json.dumps(body)}" if body else f"{code}")
        new.rename(self.folder / "answer")

    def await_question(self):
        """Return the path of the next question, and see that it was understood: another one follows."""
        for _ in range(2):
            asked = self.folder / "asked"
            asked.unlink(missing_ok=True)
            path = until(lambda asked=asked: asked.exists() and asked.read_text())
        return path.strip()


@pytest.fixture
def answers(supervised):
    return Answers(supervised.folder)


@pytest.fixture
def serve(supervised):
    def start(path="/health", scheme="http", **options):
        port = free_port()
        return supervised(
            sys.executable, "-c", SERVER, str(port), *(["tls"] if scheme == "https" else []),
            url=f"{scheme}://127.0.0.1:{port}{path}", **options,
        )  # fmt: skip

    return start


def stop(supervisor):
    supervisor.process.send_signal(signal.SIGTERM)
    supervisor.end()
    return supervisor.ending


def test_ready_once_it_answers_200(serve, answers):
    answers.give(503)
    supervisor = serve("/health?deep=1")
    assert answers.await_question() == "/health?deep=1"
    assert supervisor.names == []
    answers.give(200)
    supervisor.await_event("on_ready")
    supervisor.await_event("on_tick")
    assert stop(supervisor)["was_ready"]
    assert [name for name in supervisor.names if "done" not in name] == [
        "on_ready", "on_tick", "on_stopping", "on_stopped", "ending",
    ]  # fmt: skip


def test_a_json_status_counts_more_than_200(serve, answers):
    answers.give(200, status="STARTING")
    supervisor = serve()
    answers.await_question()
    assert supervisor.names == []
    answers.give(200, status="READY")
    supervisor.await_event("on_ready")
    assert stop(supervisor)["was_ready"]


def test_stopped_before_it_was_ready(serve, answers):
    answers.give(503)
    supervisor = serve()
    answers.await_question()
    ending = stop(supervisor)
    assert (ending["was_ready"], ending["stopped"]) == (False, True)
    assert [name for name in supervisor.names if "done" not in name] == [
        "on_stopping",
        "on_stopped",
        "ending",
    ]


def test_a_failed_setup_is_noticed_and_left_alone(serve, answers):
    """It still answers, and tells the orchestrator."""
    answers.give(200, status="SETUP_FAILED")
    supervisor = serve()
    supervisor.await_event("on_failed done")
    assert supervisor.process.poll() is None
    ending = stop(supervisor)
    assert (ending["was_ready"], ending["failed_setup"], ending["stopped"]) == (False, True, True)
    assert "on_ready" not in supervisor.names


def test_a_failed_setup_is_ended_where_the_caller_can_do_better(serve, answers):
    answers.give(200, status="SETUP_FAILED")
    supervisor = serve(on_failed="end it")
    assert supervisor.end() == 128 + signal.SIGTERM
    ending = supervisor.ending
    assert (ending["was_ready"], ending["failed_setup"], ending["stopped"]) == (False, True, False)
    assert "on_stopping" not in supervisor.names


def test_a_failed_setup_that_ends_with_0(supervised):
    """A server that says so, and leaves as if nothing had happened."""
    port = free_port()
    code = SERVER.replace("server.serve_forever()", "server.handle_request()")
    Answers(supervised.folder).give(200, status="DEFUNCT")
    supervisor = supervised(sys.executable, "-c", code, str(port), url=f"http://127.0.0.1:{port}/")
    assert supervisor.end() == 0
    assert (supervisor.ending["failed_setup"], supervisor.ending["stopped"]) == (True, False)


def test_over_tls_with_any_certificate(serve, answers, supervised):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", "key.pem", "-out", "cert.pem", "-days", "1", "-subj", "/CN=somewhere.else"],
        cwd=supervised.folder, check=True, capture_output=True,
    )  # fmt: skip
    answers.give(200)
    supervisor = serve(scheme="https")
    supervisor.await_event("on_ready")
    assert stop(supervisor)["was_ready"]


def test_a_server_that_accepts_and_says_nothing_delays_no_signal(supervised):
    """The question hangs while the signal comes."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        supervisor = supervised("sleep", "1000", url=f"http://127.0.0.1:{silent.getsockname()[1]}/")
        silent.accept()
        supervisor.process.send_signal(signal.SIGTERM)
        until(lambda: not supervisor.process.poll() or supervisor.events)
        supervisor.await_event("on_stopping")
        assert supervisor.end() == 128 + signal.SIGTERM
    assert not supervisor.ending["was_ready"]


def test_an_address_that_makes_no_sense_is_told_and_harms_nobody(supervised):
    supervisor = supervised("sleep", "1000", url="http://127.0.0.1:port/")
    until(lambda: "watching the server: InvalidURL" in supervisor.errors)
    assert stop(supervisor)["status"] == 128 + signal.SIGTERM


def test_ready_once_the_port_is_open(supervised):
    port = free_port()
    with socket.socket() as later:
        later.bind(("127.0.0.1", port))
        supervisor = supervised("sleep", "1000", tcp=["127.0.0.1", port])
        until(lambda: supervisor.child)
        assert supervisor.names == []
        later.listen()
        supervisor.await_event("on_ready")
    assert stop(supervisor)["was_ready"]


def test_ready_once_it_has_been_up_long_enough(supervised):
    supervisor = supervised("sleep", "1000", assumed_s=0.3)
    supervisor.await_event("on_ready")
    assert stop(supervisor)["was_ready"]


def test_not_ready_when_it_ends_earlier(supervised):
    supervisor = supervised("true", assumed_s=5)
    assert supervisor.end() == 0
    assert not supervisor.ending["was_ready"]
