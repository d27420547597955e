"""Both lines of Cog: the last with a Python server (0.16) and coglet (0.23), each in an interpreter of its own.

The predictors run in a process by ``cog_predictor`` and behind Cog's real server; both must see the same arguments.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from glowplug.agent import cog_predictor
from integration.cog_server import await_ready, call
from integration.services import free_port

ENVIRONMENTS = Path(__file__).parents[3] / "build" / "test-environments"
COG_016 = ("cog==0.16.12", "pydantic<2.12")  # pydantic as it was then: 0.16 misreads newer ones
DATA_URI = "data:text/plain;base64," + base64.b64encode(b"hello").decode()

PREDICTORS = Path(__file__).parent / "predictors"

# Reads cases [[ref, inputs], ...] from stdin, writes what each gives.
DRIVER = """
import importlib.util, json, sys
path = sys.argv.pop()
spec = importlib.util.spec_from_file_location("cog_predictor", path)
cog_predictor = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cog_predictor)
answers = []
for ref, inputs in json.load(sys.stdin):
    predictor = cog_predictor.load(ref, ".")
    cog_predictor.setup(predictor)
    try:
        answers.append(cog_predictor.call(predictor, cog_predictor.bind(predictor, inputs)))
    except cog_predictor.InputError as error:
        answers.append("refused: %s" % error)
print(json.dumps(answers))
"""


def checked(*command, **options):
    """Run a command that has to succeed, and give its output."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def python_with_cog_016():
    folder = ENVIRONMENTS / "cog-0.16.12"
    python, finished = folder / "bin" / "python", folder / "finished"
    if not finished.exists():
        venv.create(folder, clear=True, with_pip=True)
        checked(python, "-m", "pip", "install", "--disable-pip-version-check", *COG_016)
        finished.touch()
    return python


@pytest.fixture(scope="module", params=["0.16", "0.23"])
def python(request):
    """An interpreter that has this line of Cog."""
    return python_with_cog_016() if request.param == "0.16" else Path(sys.executable)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder as Cog users have it."""
    folder = tmp_path_factory.mktemp("model")
    shutil.copytree(PREDICTORS, folder, dirs_exist_ok=True)
    (folder / "cog.yaml").write_text("predict: model.py:Predictor\n")
    (folder / "picture.txt").write_text("pixels")
    return folder


def cog_environ(python):
    """Cog starts its worker as ``python``, the first on PATH."""
    return {**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}", "COG_WEIGHTS": ""}


@pytest.fixture(scope="module")
def environ(python):
    return cog_environ(python)


@pytest.fixture
def answers_of(python, folder, environ):
    """Answers of predictors in one process, which has chdir'ed into the folder with '' leading sys.path."""

    def run(cases, **variables):
        output = checked(
            python,
            *("-c", DRIVER, cog_predictor.__file__),
            input=json.dumps(cases),
            cwd=folder,
            env={**environ, **variables},
        )
        return json.loads(output.splitlines()[-1])

    return run


@pytest.fixture(scope="module")
def served(python, folder, environ):
    """Ask Cog's own server, started in the folder."""
    with serving(python, folder, "model.py:Predictor", environ) as ask:
        yield ask


@contextlib.contextmanager
def serving(python, folder, ref, environ):
    port = free_port()
    log = folder / "server.log"
    with log.open("w") as stream:
        server = subprocess.Popen(
            [python, "-m", "cog.server.http"],
            cwd=folder,
            env={**environ, "PORT": str(port), "COG_PREDICT_TYPE_STUB": ref},
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    try:
        await_ready(server, port, log)
        yield lambda inputs: call(port, "/predictions", {"input": inputs})["output"]
        call(port, "/shutdown", {})
        server.wait(30)
    finally:
        server.kill()
        server.wait()


def test_predictor_sees_what_it_would_see_behind_the_server(answers_of, served):
    requests = [
        {"text": "a"},
        {
            "text": "a",
            "count": 3,
            "scale": 3,
            "bias": 0.5,
            "flag": True,
            "style": "fancy",
            "names": ["x", "y"],
        },
        {"text": "a", "bias": 4, "image": DATA_URI, "note": "n", "token": "hunter2"},
    ]

    in_process = answers_of([["model.py:Predictor", inputs] for inputs in requests])

    assert in_process == [served(inputs) for inputs in requests]  # as text, in which 3 and 3.0 differ
    assert json.loads(in_process[2])[1]["image"] == ["Path", "hello"]


def test_torch_keys_are_those_of_the_server(tmp_path):
    # torch pickles tensor metadata into its keys, and pickle finds torch.contiguous_format through the first module
    # that holds ``torch``: the predictor's, unless something imported torch before it.
    shutil.copy(PREDICTORS / "keys.py", tmp_path)
    environ = cog_environ(Path(sys.executable))
    output = checked(
        *(sys.executable, "-c", DRIVER, cog_predictor.__file__),
        input='[["keys.py:Predictor", {}]]',
        cwd=tmp_path,
        env=environ,
    )

    with serving(sys.executable, tmp_path, "keys.py:Predictor", environ) as ask:
        assert json.loads(output.splitlines()[-1]) == [ask({})]


def test_kinds_of_predictors(answers_of):
    answers = answers_of(
        [
            ["model.py:Awaiting", {"text": "!"}],
            ["model.py:Yielding", {"text": "abc"}],
            ["model.py:YieldingAsync", {"text": "abc"}],
            ["model.py:Measuring", {}],
            ["model.py:paint", {"text": "ab"}],
        ]
    )

    assert answers == ["hello!", ["a", "b", "c"], ["a", "b", "c"], "measured", "abab"]


def test_weights_come_from_the_environment(answers_of):
    case = ["model.py:Weighted", {}]

    assert answers_of([case]) == ["None"]
    assert answers_of([case], COG_WEIGHTS="weights/tuned") == ["weights/tuned"]


def test_local_file_is_an_input(answers_of):
    (answer,) = answers_of([["model.py:Predictor", {"text": "a", "image": "picture.txt"}]])

    assert json.loads(answer)[1]["image"] == ["Path", "pixels"]


def test_inputs_the_server_would_refuse(answers_of):
    refused = [
        ({}, "Input 'text' (str) is required."),
        ({"text": ""}, "The length of input 'text' is 0, but must be at least 1."),
        ({"text": "a", "count": 9}, "Input 'count' is 9, but must be at most 5."),
        ({"text": "a", "style": "odd"}, "Input 'style' is 'odd', but must be one of: 'plain', 'fancy'."),
        ({"text": "a", "flag": "maybe"}, "Input 'flag' must be bool, but is str."),
        ({"text": "a", "image": "none.txt"}, "which is not a readable file."),
        ({"text": "a", "txet": "b"}, "No input is called 'txet'; did you mean 'text'?"),
    ]

    answers = answers_of([["model.py:Predictor", inputs] for inputs, _ in refused])

    for answer, (_, reason) in zip(answers, refused, strict=True):
        assert answer.startswith("refused: ")
        assert reason in answer
