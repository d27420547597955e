"""A command that is stopped, or meets itself: no process, no file and no tag is left in between."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable

import pytest

from integration.bad_input.artifact import Artifact
from integration.bad_input.project import Project, finished
from integration.bad_input.test_model_fails import alive

# Starts one process in its own session and one outside, notes all three, and hangs.
HANGING = """\
import os, subprocess, sys, time
command = [sys.executable, "-c", "import time; time.sleep(600)"]
children = [subprocess.Popen(command), subprocess.Popen(command, start_new_session=True)]
with open("pids.tmp", "w") as file: print(os.getpid(), *(child.pid for child in children), file=file)
os.rename("pids.tmp", "pids")
time.sleep(600)
"""
TOGETHER_S = 20


def awaited(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up, "it did not come that far"
        time.sleep(0.05)


def hanging(project: Project) -> tuple[subprocess.Popen[bytes], list[int]]:
    """Start a build whose model hangs; return it with the ids of the model's processes."""
    project.model(HANGING)
    build = project.start("build")
    awaited((project.folder / "pids").exists)
    return build, [int(pid) for pid in (project.folder / "pids").read_text().split()]


@pytest.mark.parametrize(
    "signals", [[signal.SIGINT], [signal.SIGTERM], [signal.SIGHUP], [signal.SIGINT, signal.SIGTERM]]
)
def test_an_interrupted_build(project: Project, signals: list[signal.Signals]) -> None:
    build, pids = hanging(project)
    for number in signals:
        build.send_signal(number)
        time.sleep(0.02)
    outcome = finished(build, TOGETHER_S)
    outcome.refused(130, "interrupted")
    assert [pid for pid in pids if alive(pid)] == []
    assert project.untouched()


def test_a_killed_build_is_swept_up_by_the_next(project: Project) -> None:
    build, (model, *children) = hanging(project)
    build.kill()
    build.wait()
    assert not alive(model)
    for child in children:
        os.kill(child, signal.SIGKILL)
    assert len(project.leftovers()) == 1
    project.model("raise ValueError('over')")
    project.build().refused(30)
    assert project.untouched()


def test_a_build_leaves_the_work_of_others_alone(project: Project) -> None:
    build, _ = hanging(project)
    foreign = project.tmp / "glowplug-build-foreign"
    foreign.symlink_to(project.folder)
    (project.folder / ".lock").touch()
    busy = set(project.tmp.iterdir())
    second = Project(project.folder.parent / "second")
    second.model("raise ValueError('over')")
    second.build(env={"TMPDIR": str(project.tmp)}).refused(30)
    assert set(project.tmp.iterdir()) == busy
    assert (project.folder / "model.py").exists()
    foreign.unlink()
    build.send_signal(signal.SIGTERM)
    finished(build, TOGETHER_S)
    assert project.untouched()


def test_a_build_that_is_killed_while_it_publishes(project: Project, artifact: Artifact) -> None:
    project.spec_with(seed="1")  # another artifact under the same tags
    before = (artifact.folder / "index.json").read_bytes()
    digest = artifact.digest
    with (artifact.folder / "index.json.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        blobs = len(list((artifact.folder / "blobs" / "sha256").iterdir()))
        build = project.start("build")
        # Record, cache and config; and then the manifest, whose tag has to wait for the lock.
        awaited(lambda: len(list((artifact.folder / "blobs" / "sha256").glob("[!.]*"))) == blobs + 4)
        build.kill()
        build.wait()
    assert (artifact.folder / "index.json").read_bytes() == before
    fetched = project.glowplug("fetch", "oci:./cache:v1", "--dest", "out", "--json")
    assert json.loads(fetched.stdout)["digest"] == digest


def test_two_builds_of_one_thing_at_once(project: Project) -> None:
    builds = [project.start("build") for _ in range(2)]
    outcomes = [finished(build) for build in builds]
    assert [outcome.code for outcome in outcomes] == [0, 0], outcomes
    artifact = Artifact(project.cache)
    assert [entry["digest"] for entry in artifact.index["manifests"]] == [artifact.digest]
    assert any(artifact.digest in outcome.stdout for outcome in outcomes)
    assert project.glowplug("fetch", "oci:./cache:v1", "--dest", "out").code == 0
    assert project.leftovers() == []


@pytest.mark.parametrize("command", [["fetch"], ["run", "--strict"]])
def test_a_fetch_that_is_interrupted_while_nothing_comes(
    project: Project, artifact: Artifact, command: list[str]
) -> None:
    blob = artifact.blob(artifact.part("last layer"))
    blob.unlink()
    os.mkfifo(blob)  # whoever opens it waits
    words = [*command, "oci:./cache:v1", "--dest", "out"] + (["--", "true"] if "run" in command else [])
    fetch = project.start(*words)
    awaited(lambda: any(path.name.startswith(".glowplug.") for path in project.folder.iterdir()))
    time.sleep(0.2)
    fetch.send_signal(signal.SIGTERM)
    finished(fetch, TOGETHER_S).refused(130, "interrupted")
    assert not (project.folder / "out").exists()
    assert project.leftovers() == []


def test_nohup_is_respected(project: Project) -> None:
    project.model("import time; time.sleep(1); raise ValueError('over')")
    build = project.start("build", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    awaited(lambda: any(project.tmp.iterdir()))
    build.send_signal(signal.SIGHUP)
    finished(build).refused(30, "over")
