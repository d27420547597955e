"""A server in the spec: what is read, what is refused, and what its digest covers."""

import copy

import pytest

from glowplug.agent.command import CACHE_VARIABLES
from glowplug.agent.http_requests import FAILED, NOT_YET
from glowplug.boot import readiness
from glowplug.caches.table import KINDS
from glowplug.core.command_spec import IGNORED_KEYS, CommandWorkload, ReadyCondition, StopRequest
from glowplug.core.document import Document
from glowplug.core.spec import CogConfig
from glowplug.core.spec_schema import parse_spec
from glowplug.core.surroundings import Surroundings
from glowplug.errors import SpecError

RUN = {
    "command": ["python", "server.py", "--port", "${PORT}"],
    "ready": "http://127.0.0.1:${PORT}/health",
    "requests": [{"path": "/run", "json": {"n": 4}}],
}
ENVIRON = {"PORT": "8000", "LOGIN": "correct horse", "HOST": "localhost"}


def file_digest(path):
    if path == "nowhere.png":
        raise SpecError("nowhere.png cannot be read: No such file or directory")
    return f"sha256:digest of {path}"


def parse(changes=(), digests=file_digest):
    run = {name: value for name, value in {**RUN, **dict(changes)}.items() if value is not ...}
    values = {"model": {"name": "m", "version": "v1"}, "run": run, "artifact": "oci:cache"}
    around = Surroundings(ENVIRON, lambda _folder: CogConfig("predict.py:Predictor"), digests)
    return parse_spec(Document("glowplug.yaml", copy.deepcopy(values)), around)


def workload(**changes):
    return parse(changes).run.workload


def request(**entry):
    return parse({"requests": [{"path": "/", **entry}], "secrets": ["LOGIN"]}).run.inputs[0]


def test_a_small_command_gets_its_defaults():
    spec = parse()
    assert spec.run.workload == CommandWorkload(
        ("python", "server.py", "--port", "8000"),
        "http://127.0.0.1:8000",
        ReadyCondition(url="http://127.0.0.1:8000/health"),
        StopRequest("SIGTERM", 30.0),
        IGNORED_KEYS,
        ".",
    )
    assert spec.run.inputs == ({"method": "POST", "path": "/run", "json": {"n": 4}},)
    assert spec.run.inputs_key == "requests"
    assert spec.run.environment == {}


def test_a_command_in_one_text_is_split_without_a_shell():
    command = workload(command="""./serve.sh --name 'a b' "$HOME" ${PORT} $${PORT} | tee log""").command
    assert command == ("./serve.sh", "--name", "a b", "$HOME", "8000", "${PORT}", "|", "tee", "log")


def test_everything_can_be_said():
    stated = workload(
        ready={"url": "https://[::1]:8443/x?y=1", "json": {"status": "READY"}, "status": 418, "timeout_s": 5},
        url="http://${HOST}:9000/",
        stop={"signal": "SIGINT", "timeout_s": 0},
        ignore=["usage"],
        dir="src",
    )
    assert stated.ready == ReadyCondition("https://[::1]:8443/x?y=1", None, {"status": "READY"}, 418, 5.0)
    assert stated.url == "http://localhost:9000"
    assert stated.stop == StopRequest("SIGINT", 0.0)
    assert (stated.ignore, stated.dir) == (("usage",), "src")


@pytest.mark.parametrize(
    ("ready", "url"),
    [
        ("tcp://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("https://example.org/health", "https://example.org"),
        ({"url": "tcp://[::1]:80", "timeout_s": 9}, "http://[::1]:80"),
    ],
)
def test_requests_go_where_readiness_is_asked(ready, url):
    assert workload(ready=ready).url == url


@pytest.mark.parametrize(
    ("entry", "read"),
    [
        ({}, {"method": "GET"}),
        ({"json": None}, {"method": "POST", "json": None}),
        ({"body": "a cat"}, {"method": "POST", "body": "a cat"}),
        ({"method": "PUT", "body": "a", "status": 201}, {"method": "PUT", "body": "a", "status": 201}),
        ({"form": {"n": 1, "flag": True}}, {"method": "POST", "form": {"n": 1, "flag": True}}),
        (
            {"files": {"image": "./cat.png"}, "form": {"prompt": "x"}},
            {
                "method": "POST",
                "form": {"prompt": "x"},
                "files": {"image": {"path": "./cat.png", "digest": "sha256:digest of ./cat.png"}},
            },
        ),
        (
            {"headers": {"Authorization": "Bearer ${LOGIN}", "X-Port": "${PORT}"}},
            {"method": "GET", "headers": {"Authorization": "Bearer ${LOGIN}", "X-Port": "8000"}},
        ),
    ],
)
def test_each_request_is_made_explicit(entry, read):
    assert request(**entry) == {"path": "/", **read}


MISTAKES = {
    "two workloads": ({"python": "m:f"}, "run: has both python and command; keep one"),
    "no word": ({"command": []}, "run.command: lists nothing; write [python, server.py]"),
    "a number": ({"command": ["python", 8000]}, "run.command[1]: must be text, but is the number 8000; quote it"),
    "a quote": ({"command": "python 'x"}, "run.command: cannot be split into words: no closing quotation"),
    "unset": ({"command": ["${NO}"]}, "run.command[0]: ${NO} is not set in the environment"),
    "a secret": (
        {"command": ["${LOGIN}"], "secrets": ["LOGIN"]},
        "run.command[0]: ${LOGIN} is a secret (run.secrets), and would be recorded here",
    ),
    "inputs": ({"inputs": [1]}, "run.inputs: a command is asked by requests; write requests instead"),
    "a seed": ({"seed": 1}, "run.seed: a server cannot be seeded from outside; put a seed into each request"),
    "weights": ({"weights": "w"}, "run.weights: only a Cog predictor takes weights; pass them through inputs or env"),
    "no ready": (
        {"ready": ...},
        "run: ready is missing; write ready: http://127.0.0.1:8000/health, tcp://127.0.0.1:8000 or {log: started}",
    ),
    "ready elsewhere": (
        {"ready": "ftp://x"},
        "run.ready: must start with http://, https://, tcp:// and name a host, but is 'ftp://x'",
    ),
    "no port": ({"ready": "tcp://x"}, "run.ready: must look like tcp://127.0.0.1:8000, but is 'tcp://x'"),
    "a bad port": ({"ready": "http://x:y"}, "run.ready: 'http://x:y' has no port that could be read"),
    "a password": (
        {"ready": "http://a:b@x"},
        "run.ready: must not hold a user or a password; use a header of the request",
    ),
    "ready twice": (
        {"ready": {"url": "http://x", "log": "y"}, "url": "http://x"},
        "run.ready: must have either url or log",
    ),
    "a misspelt key": ({"ready": {"ulr": "http://x"}, "url": "http://x"}, "run.ready.ulr: unknown key; did you mean 'url'?"),
    "a bad pattern": (
        {"ready": {"log": "("}, "url": "http://x"},
        "run.ready.log: is no regular expression: missing ), unterminated subpattern at position 0",
    ),
    "no address": ({"ready": {"log": "x"}}, "run: url is missing; write url: http://127.0.0.1:8000, where requests go"),
    "json of tcp": ({"ready": {"url": "tcp://x:1", "json": {}}}, "run.ready.json: only an HTTP answer has one"),
    "a path": ({"url": "http://x/v1"}, "run.url: must end after the port; the path belongs to each request"),
    "a signal": (
        {"stop": {"signal": "TERM"}},
        "run.stop.signal: must be one of SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, but is the text 'TERM'",
    ),
    "a patience": ({"stop": {"timeout_s": -1}}, "run.stop.timeout_s: must be a number of at least 0, but is -1"),
    "no ignored key": ({"ignore": [1]}, "run.ignore[0]: must be text, but is the number 1; quote it"),
    "no requests": (
        {"requests": ...},
        "run: requests is missing; write requests: [{path: /predict, json: {prompt: a cat}}]",
    ),
    "not one request": ({"requests": []}, "run.requests: lists nothing; without a request nothing is compiled"),
}  # fmt: skip

REQUEST_MISTAKES = {
    "no mapping": ("/run", "run.requests[0]: must be a mapping such as {path: /predict}, but is the text '/run'"),
    "no path": ({}, "run.requests[0]: path is missing; write path: /predict"),
    "a whole URL": (
        {"path": "http://x"},
        "run.requests[0].path: must start with / and be encoded as in a URL, but is the text 'http://x'",
    ),
    "a space": (
        {"path": "/a b"},
        "run.requests[0].path: must start with / and be encoded as in a URL, but is the text '/a b'",
    ),
    "a misspelt key": ({"path": "/", "jsn": 1}, "run.requests[0].jsn: unknown key; did you mean 'json'?"),
    "two bodies": ({"path": "/", "json": 1, "body": "x"}, "run.requests[0]: has both json and body; keep one"),
    "a method": (
        {"path": "/", "method": "get"},
        "run.requests[0].method: must be one of GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS, but is the text 'get'",
    ),
    "no JSON": (
        {"path": "/", "json": {"x": float("nan")}},
        "run.requests[0].json.x: must be a finite number, but is nan",
    ),
    "a status": ({"path": "/", "status": 99}, "run.requests[0].status: must be a number of at least 200, but is 99"),
    "a list in a form": (
        {"path": "/", "form": {"x": [1]}},
        "run.requests[0].form.x: must be a text, a number or a truth value, but is a list",
    ),
    "a file": (
        {"path": "/", "files": {"image": "nowhere.png"}},
        "run.requests[0].files.image: nowhere.png cannot be read: No such file or directory",
    ),
    "a header's name": ({"path": "/", "headers": {"a b": "c"}}, "run.requests[0].headers.a b: is no name of a header"),
    "a line break": (
        {"path": "/", "headers": {"a": "b\nX-c: d"}},
        "run.requests[0].headers.a: holds what a header cannot: a line break, or letters beyond Latin-1",
    ),
    "our header": (
        {"path": "/", "headers": {"Host": "x"}},
        "run.requests[0].headers.Host: is set by the client itself; leave it out",
    ),
    "an unset header": (
        {"path": "/", "headers": {"a": "${NO}"}},
        "run.requests[0].headers.a: ${NO} is not set in the environment",
    ),
}  # fmt: skip
MISTAKES |= {
    f"request with {name}": ({"requests": [entry]}, said) for name, (entry, said) in REQUEST_MISTAKES.items()
}


@pytest.mark.parametrize(("changes", "message"), MISTAKES.values(), ids=MISTAKES)
def test_each_mistake_gives_one_message(changes, message):
    with pytest.raises(SpecError) as caught:
        parse(changes)
    assert str(caught.value) == f"glowplug.yaml: {message}"


def test_all_mistakes_are_shown_at_once():
    with pytest.raises(SpecError) as caught:
        parse({"command": [], "ready": ..., "requests": [{}, {"path": "x"}], "stop": {"sgnal": "x"}})
    assert len(str(caught.value).splitlines()) == 5


@pytest.mark.parametrize("key", ["url", "ready", "stop", "ignore", "requests"])
def test_a_server_s_keys_need_a_command(key):
    with pytest.raises(SpecError, match=f"run.{key}: only a command"):
        parse({"command": ..., "ready": ..., "requests": ..., "python": "m:f", key: RUN.get(key, {})})


@pytest.mark.parametrize(
    "changes",
    [
        {"command": "python other.py"},
        {"ignore": []},
        {"dir": "src"},
        {"requests": [{"path": "/run", "json": {"n": 5}}]},
        {"requests": [{"path": "/run", "json": {"n": 4}, "headers": {"a": "b"}}]},
    ],
)
def test_the_digest_follows_what_is_asked_and_compared(changes):
    assert parse(changes).digest() != parse().digest()


def test_the_digest_follows_the_content_of_files():
    sent = {"requests": [{"path": "/", "files": {"x": "x.png"}}]}
    assert parse(sent, lambda _: "sha256:a").digest() != parse(sent, lambda _: "sha256:b").digest()


@pytest.mark.parametrize(
    "changes", [{"ready": "tcp://x:1"}, {"url": "http://x:1"}, {"stop": {"timeout_s": 1}}, {"timeout_s": 5}]
)
def test_the_digest_ignores_how_a_server_is_found_and_stopped(changes):
    assert parse(changes).digest() == parse().digest()


def test_what_the_agent_repeats_is_what_the_package_says():
    """It imports nothing of ours, so it has some words of its own."""
    assert (FAILED, NOT_YET) == (readiness._FAILED, readiness._NOT_YET)
    assert list(CACHE_VARIABLES) == [kind.env for kind in KINDS.values()]
