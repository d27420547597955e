"""Runs a server as a workload: start, wait until it is ready, ask it input by input, wait for its cache, stop.

A stand-alone file for the model's environment: Python 3.9, the standard library. The client runs here, and not in the
builder, because only here the server's address means the server.
"""

import glob
import json
import os
import re
import signal
import threading
import time

_POLL_S = 0.05
# Statuses that say "not now" and that nothing was done: Cog answers 409 for a moment after each answer and 503 before
# it is ready; 429 is a full queue.
_NOT_NOW = (409, 429, 503)
_NOT_NOW_S = 60.0
# A server whose connections break is often about to end, and how it ends says more.
_ENDING_S = 2.0
_QUIET_S = 3.0
_MAX_QUIET_WAIT_S = 120.0
CACHE_VARIABLES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
_SECRET = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class CommandWorkload:
    """A server that is asked one request per input.

    ``uploads`` is the folder with the files of the requests; ``modules`` are this folder's ``server_process``,
    ``http_requests`` and ``answers``.
    """

    def __init__(self, workload, uploads, modules):
        self._workload = workload
        self._uploads = uploads
        self._process_module, self._http, answers = modules
        self.outputs = answers.Answers(workload["ignore"])
        self._error = self._process_module.ServerError
        self._client = self._http.Client(workload["url"])
        self._server = None
        self._seen_line = threading.Event()

    def setup(self):
        """Start it, and wait until it is ready."""
        if self._http.is_listening(self._workload["url"]):
            raise self._error("something listens at %s already; stop it first" % self._workload["url"])
        ready = self._workload["ready"]
        self._server = self._process_module.ServerProcess(
            self._workload["command"], self._line_reader(ready), self._client.abort
        )
        deadline = time.monotonic() + ready["timeout_s"]
        state = ""
        while state != "ready":
            self._require_running("before it was ready")
            state = self._ask(ready)
            if state == "failed":
                raise self._error("the server says that its setup failed (%s)" % ready["url"])
            if state != "ready" and time.monotonic() > deadline:
                where = ready.get("url") or "its log"
                raise self._error(
                    "the server was not ready within %g s: %s: %s" % (ready["timeout_s"], where, state)
                )
            time.sleep(0.0 if state == "ready" else _POLL_S)

    def _line_reader(self, ready):
        if "log" not in ready:
            return lambda _line: None
        pattern = re.compile(ready["log"])
        return lambda line: self._seen_line.set() if pattern.search(line) else None

    def _ask(self, ready):
        if "log" in ready:
            return "ready" if self._seen_line.is_set() else "no line matches %r" % ready["log"]
        return self._http.ask(ready)

    def _require_running(self, when):
        end = self._server.end()
        if end:
            raise self._error("the server %s %s" % (end, when))

    def call(self, request):
        """Send one request, again while the server says "not now", and return the answer that was expected."""
        shown = "%(method)s %(path)s" % request
        headers, body = self._http.encode(request, self._uploads)
        headers.update((name, self._with_secrets(text)) for name, text in request.get("headers", {}).items())
        give_up = time.monotonic() + _NOT_NOW_S
        while True:
            self._require_running("before " + shown)
            answer = self._send(request, headers, body)
            if answer is not None and _is_expected(answer.status, request.get("status")):
                if "status" not in request and self._http.says_failed(answer):
                    raise self._error(
                        "the server answered %s with a failure: %s" % (shown, _start_of(answer))
                    )
                return answer
            if (answer is None or answer.status in _NOT_NOW) and time.monotonic() < give_up:
                time.sleep(_POLL_S)
                continue
            if answer is None:
                raise self._error("the server takes no connection for %s" % shown)
            expected = request.get("status") or "2xx"
            message = "the server answered %d to %s where %s was expected: %s"
            raise self._error(message % (answer.status, shown, expected, _start_of(answer)))

    def _send(self, request, headers, body):
        """Return the answer, ``None`` while nobody takes a connection: then nothing was asked yet."""
        try:
            return self._client.send(request["method"], request["path"], headers, body)
        except ConnectionRefusedError:
            return None
        except (OSError, self._http.http.client.HTTPException) as error:
            shown = "%(method)s %(path)s" % request
            end = self._server.end(_ENDING_S)
            if end:
                raise self._error("the server %s before it had answered %s" % (end, shown)) from error
            said = str(error) or type(error).__name__
            raise self._error("the server did not answer %s to the end: %s" % (shown, said)) from error

    def _with_secrets(self, text):
        def value(match):
            name = match.group(1)
            if name not in self._workload["secrets"]:
                return match.group(0)
            if not os.environ.get(name):
                raise self._error("a header needs the variable %s, which is not set" % name)
            return os.environ[name]

        return _SECRET.sub(value, text)

    def close(self):
        """Wait until nothing is written below the cache any more, then stop the server; return what to tell about it."""
        await_quiet([os.environ[name] for name in CACHE_VARIABLES if os.environ.get(name)])
        self._require_running("before it was asked to")
        stop = self._workload["stop"]
        if self._server.stop(getattr(signal, stop["signal"]), stop["timeout_s"]):
            return ["the server did not stop within %(timeout_s)g s of %(signal)s, and was killed" % stop]
        return []

    def kill(self):
        """Leave nothing of the server behind, whatever went wrong."""
        if self._server is not None:
            self._server.kill()

    def facts(self):
        """Import torch, now that the device is free, for what it says of this machine; return what the server used."""
        versions = torch_versions(os.environ.get("GLOWPLUG_PROBE_DIR", ""))
        if not versions:
            return {}
        try:
            import torch  # noqa: F401
        except ImportError:  # the server has an environment of its own
            pass
        return {"torch": versions[-1], "compiled": True}


def _start_of(answer):
    return " ".join(answer.body[:500].decode("utf-8", "replace").split()) or "(nothing)"


def _is_expected(status, wanted):
    return status == wanted if wanted else 200 <= status < 300


def await_quiet(folders):
    """Wait until nothing below ``folders`` has changed for some seconds, as compilers may work behind an answer."""
    give_up = time.monotonic() + _MAX_QUIET_WAIT_S
    while time.monotonic() < give_up:
        quiet_s = time.time() - max(map(_changed_at, folders), default=0.0)
        if quiet_s >= _QUIET_S:
            return
        time.sleep(min(max(_QUIET_S - quiet_s, _POLL_S), _QUIET_S))


def _changed_at(folder):
    """Return when anything below a folder changed last; renaming a file changes its folder."""
    latest = 0.0
    for place, _, names in os.walk(folder):
        for path in [place, *(os.path.join(place, name) for name in names)]:
            try:
                latest = max(latest, os.lstat(path).st_ctime)
            except OSError:  # a temporary file
                pass
    return latest


def torch_versions(folder):
    """Return the versions of torch with which the probe saw processes that may compile."""
    found = set()
    for path in glob.glob(os.path.join(glob.escape(folder), "*.jsonl")):
        with open(path, errors="replace") as stream:
            for line in stream:
                try:
                    event = json.loads(line)
                except ValueError:  # cut short by a kill
                    continue
                if event.get("event") == "torch":
                    found.add(str(event.get("version")))
    return sorted(found)
