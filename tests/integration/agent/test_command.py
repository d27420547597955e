"""A server as a workload, run by the agent itself. The servers need no torch, so each run is quick."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import glowplug
from integration.services import free_port

RUNNER = Path(glowplug.__file__).parent / "agent" / "runner.py"

# What a handler can refer to; a test's own code comes after it and may change it, or act before the server listens.
SERVER = """
import json, os, signal, subprocess, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer

STATUS, asked = {}, []

class Handler(BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self.answer(200, {"status": "ok", "id": time.time()})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        asked.append(self.path)
        status, value = react(self, body)
        self.answer(status, value)

    def answer(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

def react(handler, body):
    return 200, {"id": time.time(), "echo": json.loads(body)}

def orphan(**options):
    code = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", code], **options)
    with open("pids", "a") as pids:
        print(child.pid, file=pids)
    return child
"""
SERVE = """
server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("listening", flush=True)
server.serve_forever()
"""
ASK = {"method": "POST", "path": "/run", "json": {"n": 4}}


class Run:
    """One run of the runner over a server whose code is `code`: its result, its log, and how long it took."""

    def __init__(self, folder, code="", requests=(ASK,), *, serve=SERVE, env=(), **changes):
        self.folder = folder
        for name in ("outputs", "caches"):
            (folder / name).mkdir(exist_ok=True)
        (folder / "server.py").write_text(SERVER + code + serve)
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        workload = {
            "type": "command",
            "command": [sys.executable, "server.py", str(port)],
            "url": url,
            "ready": {"url": url, "timeout_s": 30.0},
            "stop": {"signal": "SIGTERM", "timeout_s": 10.0},
            "ignore": ["id"],
            "secrets": ["LOGIN"],
            **changes,
        }
        job = {
            "workload": workload,
            "inputs": list(requests),
            "seed": 0,
            "steady_runs": 1,
            "steady_budget_s": 20.0,
            "tolerance": 1e-3,
            "result": str(folder / "result.json"),
            "outputs": str(folder / "outputs"),
            "reference": str(folder / "outputs"),
        }
        (folder / "job.json").write_text(json.dumps(job))
        started = time.monotonic()
        done = subprocess.run(
            [sys.executable, str(RUNNER), str(folder / "job.json")],
            cwd=folder,
            env={**os.environ, **dict(env)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
        )
        self.took_s = time.monotonic() - started
        self.status, self.log = done.returncode, done.stdout
        self.result = json.loads((folder / "result.json").read_text())
        self.url = url

    @property
    def error(self):
        assert self.status == 1, self.log
        assert not self.result["complete"]
        assert "Traceback" not in self.log or "_glowplug" not in self.log
        return self.result["error"].replace(self.url, "URL")

    def answer(self, number=0):
        """The leaves of an answer, as they were stored."""
        return dict(json.loads((self.folder / "outputs" / f"{number}.json").read_text()))

    def require_nobody_left(self):
        pids = (self.folder / "pids").read_text().split()
        assert pids
        assert [pid for pid in pids if is_alive(pid)] == []


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_server_is_started_asked_and_stopped(tmp_path):
    code = """
signal.signal(signal.SIGTERM, lambda *_: (print("stopping", asked, flush=True), sys.exit(3)))
"""
    run = Run(tmp_path, code, [ASK, {"method": "GET", "path": "/"}])
    assert (run.status, run.result["complete"]) == (0, True), run.log
    assert run.log.splitlines() == ["listening", "stopping ['/run', '/run']"]
    assert [report["equal"] for report in run.result["comparisons"]] == [True, True]
    assert run.answer()["output.echo.n"] == [4]
    assert "output.id" not in run.answer()
    for entry in run.result["inputs"]:
        assert entry["repeats"]["equal"]
        assert entry["first_call_s"] > 0
        assert entry["steady_s"] > 0
    assert 0 < run.result["ready_at_s"] <= run.result["first_answer_s"] <= run.result["warmed_at_s"]
    assert run.result["torch"] == {}
    assert run.result["notes"] == []


@pytest.mark.parametrize(
    "ready",
    [
        {"log": "^listen+ing$"},
        {"url": "tcp://127.0.0.1:PORT"},
        {"url": "URL/health", "json": {"status": "ok"}},
    ],
)
def test_every_way_to_be_ready(tmp_path, ready):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    ready = {
        name: value.replace("PORT", str(port)).replace("URL", url) if isinstance(value, str) else value
        for name, value in ready.items()
    }
    command = [sys.executable, "server.py", str(port)]
    run = Run(tmp_path, url=url, command=command, ready={**ready, "timeout_s": 30.0})
    assert run.result["complete"], run.log


def test_a_server_that_says_not_now_is_asked_again(tmp_path):
    code = """
def react(handler, body):
    return [(503, {}), (409, {}), (429, {}), (200, {"n": 1})][min(len(asked) - 1, 3)]
"""
    run = Run(tmp_path, code)
    assert run.answer() == {"status": 200, "kind": "json", "output": "an object of 1", "output.n": [1]}


def test_a_log_line_may_come_before_the_port_is_open(tmp_path):
    serve = """
print("listening", flush=True)
time.sleep(1)
HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
    assert Run(tmp_path, serve=serve, ready={"log": "listening", "timeout_s": 30}).result["complete"]


def test_a_file_beside_the_job_is_sent(tmp_path):
    code = """
def react(handler, body):
    return 200, {"type": handler.headers["Content-Type"].partition(";")[0], "has": "a cat" in body}
"""
    (tmp_path / "uploads").mkdir()
    (tmp_path / "uploads" / "sha256-abc").write_bytes(b"a cat")
    files = {"image": {"path": "x/cat.png", "digest": "sha256:abc"}}
    run = Run(tmp_path, code, [{"method": "POST", "path": "/", "files": files}])
    assert (run.answer()["output.type"], run.answer()["output.has"]) == (["multipart/form-data"], [True])


def test_a_secret_goes_into_a_header_and_nowhere_else(tmp_path):
    code = """
def react(handler, body):
    login = handler.headers["Authorization"] == "Bearer correct horse"
    return 200, {"login": login, "other": handler.headers["X-Other"]}
"""
    headers = {"Authorization": "Bearer ${LOGIN}", "X-Other": "${HOME}"}
    run = Run(tmp_path, code, [{**ASK, "headers": headers}], env={"LOGIN": "correct horse"})
    assert (run.answer()["output.login"], run.answer()["output.other"]) == ([True], ["${HOME}"])
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or b"correct horse" not in file.read_bytes() or file.name == "server.py"


def test_a_secret_that_is_not_set(tmp_path):
    error = Run(tmp_path, requests=[{**ASK, "headers": {"A": "${LOGIN}"}}]).error
    assert error == "a header needs the variable LOGIN, which is not set"


FAILURES = {
    "dies at once": ("sys.exit(7)", "the server ended with exit status 7 before it was ready"),
    "is killed": ("os.kill(os.getpid(), 9)", "the server was killed by signal 9 before it was ready"),
    "dies during a request": (
        "def react(handler, body): os._exit(3)",
        "the server ended with exit status 3 before it had answered POST /run",
    ),
    "ends after an answer": (
        """
def finish(handler):
    BaseHTTPRequestHandler.finish(handler)
    if asked:
        os._exit(0)
Handler.finish = finish
""",
        "the server ended with exit status 0 before ",  # the next request, whose connection may still be made
    ),
    "breaks off an answer": (
        """
def react(handler, body):
    handler.wfile.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 100\\r\\n\\r\\nonly this")
    handler.wfile.flush()
    handler.connection.shutdown(2)
    handler.close_connection = True
""",
        "the server did not answer POST /run to the end: IncompleteRead(9 bytes read, 91 more expected)",
    ),
    "wrong status": (
        "def react(handler, body): return 500, {'detail': 'no such shape'}",
        'the server answered 500 to POST /run where 2xx was expected: {"detail": "no such shape"}',
    ),
    "failure beside 200": (
        "def react(handler, body): return 200, {'status': 'failed', 'error': 'no such shape'}",
        'the server answered POST /run with a failure: {"status": "failed", "error": "no such shape"}',
    ),
    "failed setup": (
        "Handler.do_GET = lambda self: self.answer(200, {'status': 'SETUP_FAILED'})",
        "the server says that its setup failed (URL)",
    ),
}


@pytest.mark.parametrize(("code", "message"), FAILURES.values(), ids=FAILURES)
def test_a_server_that_fails(tmp_path, code, message):
    run = Run(tmp_path, f"orphan(start_new_session=True)\nprint('about to')\n{code}", steady_runs=0)
    assert run.error.startswith(message)
    assert "about to" in run.log
    run.require_nobody_left()


def test_another_status_may_be_what_is_wanted(tmp_path):
    code = "def react(handler, body): return 418, {'n': 1}"
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert Run(tmp_path / "a", code, [{**ASK, "status": 418}]).result["complete"]
    code = "def react(handler, body): return 200, {'status': 'failed'}"
    assert Run(tmp_path / "a", code, [{**ASK, "status": 200}]).result["complete"]
    error = Run(tmp_path / "b", requests=[{**ASK, "status": 418}]).error
    assert error.startswith("the server answered 200 to POST /run where 418 was expected")


@pytest.mark.parametrize(
    ("code", "ready", "reason"),
    [
        ("time.sleep(600)", {}, "URL: it does not answer ([Errno 111] Connection refused)"),
        ("Handler.do_GET = lambda self: self.answer(503, {})", {}, "URL: it answers 503"),
        ("Handler.do_GET = lambda self: time.sleep(600)", {}, "URL: it does not answer (timed out)"),
        ("", {"log": "nev.r"}, "its log: no line matches 'nev.r'"),
    ],
)
def test_a_server_that_is_never_ready(tmp_path, code, ready, reason):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "server.py", str(port)]
    ready = {**(ready or {"url": url}), "timeout_s": 1.5}
    run = Run(tmp_path, f"orphan()\n{code}", command=command, url=url, ready=ready)
    assert run.error.replace(url, "URL") == f"the server was not ready within 1.5 s: {reason}"
    run.require_nobody_left()


def test_a_command_that_is_not_there(tmp_path):
    assert Run(tmp_path, command=["nonsuch"]).error == "nonsuch cannot be started: No such file or directory"


def test_a_port_that_is_taken(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        url = f"http://127.0.0.1:{other.getsockname()[1]}"
        assert Run(tmp_path, url=url).error == f"something listens at {url} already; stop it first"


def test_a_server_that_ignores_the_signal_is_killed(tmp_path):
    code = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\norphan()\n"
    run = Run(tmp_path, code, stop={"signal": "SIGTERM", "timeout_s": 0.5})
    assert run.result["complete"], run.log
    assert run.result["notes"] == ["the server did not stop within 0.5 s of SIGTERM, and was killed"]
    run.require_nobody_left()


def test_workers_in_sessions_of_their_own_are_ended(tmp_path):
    code = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.environ.clear()
        orphan(start_new_session=True, env={})
        time.sleep(600)
    os._exit(0)
while not (os.path.exists("pids") and os.path.getsize("pids")):
    time.sleep(0.01)
signal.signal(signal.SIGINT, lambda *_: os._exit(0))
"""
    run = Run(tmp_path, code, stop={"signal": "SIGINT", "timeout_s": 10})
    assert run.result["complete"], run.log
    run.require_nobody_left()


def test_a_worker_that_holds_the_connection_of_a_dead_server(tmp_path):
    code = """
def react(handler, body):
    if os.fork() == 0:
        time.sleep(600)
    os._exit(5)
"""
    error = Run(tmp_path, code).error
    assert error == "the server ended with exit status 5 before it had answered POST /run"


def test_the_server_is_stopped_once_its_cache_is_quiet(tmp_path):
    code = """
import threading
def write():
    for number in range(8):
        time.sleep(0.5)
        open("caches/file-%d" % number, "w").close()
def react(handler, body):
    if len(asked) == 1:
        threading.Thread(target=write, daemon=True).start()
    return 200, {}
"""
    run = Run(tmp_path, code, env={"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "caches")})
    assert run.result["complete"], run.log
    assert len(list((tmp_path / "caches").iterdir())) == 8


def test_a_server_dies_with_the_runner(tmp_path):
    """When the builder is killed the runner goes with it, and so must the server."""
    serve = """
with open("server.tmp", "w") as file:
    print(os.getpid(), os.getppid(), file=file)
os.rename("server.tmp", "server.pid")
time.sleep(600)
"""

    def run():
        with contextlib.suppress(OSError):  # killed, it leaves no result
            Run(tmp_path, serve=serve)

    threading.Thread(target=run, daemon=True).start()
    file = tmp_path / "server.pid"
    deadline = time.monotonic() + 30
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    server, runner = map(int, file.read_text().split())
    os.kill(runner, signal.SIGKILL)
    while is_alive(server):
        assert time.monotonic() < deadline
        time.sleep(0.05)
