"""The job of a server: what the runner is told, and the files that go beside it."""

import json
from pathlib import PurePosixPath

from glowplug.core.command_spec import CommandWorkload, ReadyCondition
from glowplug.core.reference import LayoutRepository
from glowplug.core.spec import LiteralVersion, ModelSpec, PythonWorkload, RunSpec, Spec
from glowplug.core.workspace import Workspace
from glowplug.workload.job import JobFolder, copy_uploads, make_job

REQUEST = {
    "method": "POST",
    "path": "/upload",
    "files": {"image": {"path": "images/cat.png", "digest": "sha256:abc"}},
}
SERVER = CommandWorkload(("serve",), "http://x:1", ReadyCondition(log="ready"), ignore=("id",))


def spec(workload, *inputs):
    run = RunSpec(workload, inputs, secrets=("LOGIN",))
    return Spec(ModelSpec("m", LiteralVersion("v1")), run, LayoutRepository("cache"))


def folder(tmp_path):
    (tmp_path / "run").mkdir()
    return JobFolder(Workspace(tmp_path / "run", PurePosixPath("/elsewhere")))


def test_files_of_requests_are_put_beside_the_job(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "cat.png").write_bytes(b"a cat")
    job = folder(tmp_path)
    copy_uploads(spec(SERVER, REQUEST, REQUEST, {"method": "GET", "path": "/"}), tmp_path, job)
    assert job.uploads == job.job.parent / "uploads"
    assert [(file.name, file.read_bytes()) for file in job.uploads.iterdir()] == [("sha256-abc", b"a cat")]


def test_inputs_of_a_callable_name_no_files(tmp_path):
    job = folder(tmp_path)
    copy_uploads(
        spec(PythonWorkload("m:f"), {"files": {"x": {"path": "nowhere", "digest": "d"}}}), tmp_path, job
    )
    assert not job.uploads.exists()


def test_the_runner_is_told_all_about_a_server(tmp_path):
    job = json.loads(
        json.dumps(make_job(spec(SERVER, REQUEST), folder(tmp_path), behind_another_module=True))
    )
    assert job["workload"] == {
        "type": "command",
        "command": ["serve"],
        "url": "http://x:1",
        "ready": {"log": "ready", "timeout_s": 1200.0},
        "stop": {"signal": "SIGTERM", "timeout_s": 30.0},
        "ignore": ["id"],
        "dir": ".",
        "secrets": ["LOGIN"],
    }
    assert job["inputs"] == [REQUEST]
    assert job["outputs"] == "/elsewhere/outputs"
