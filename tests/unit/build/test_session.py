import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

import glowplug
from glowplug.build.engines import find_interpreter
from glowplug.build.session import require_compiler, work_folder
from glowplug.core.spec import CogWorkload, RunSpec
from glowplug.engine.local import LocalEngine
from glowplug.errors import EngineError, GlowplugError, ToolMissingError
from unit.artifacts import RUN, make_session
from unit.samples import CPU, H100


@pytest.fixture
def program(tmp_path):
    def make(path):
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("#!/bin/sh\n")
        place.chmod(0o755)
        return place

    return make


def interpreter(folder, named=None, path=""):
    session = make_session(folder, run=replace(RUN, interpreter=named))
    return find_interpreter(session.loaded, {"PATH": str(folder / path) if path else "/nowhere"})


def test_python_goes_before_python3(tmp_path, program):
    program("both/python3")
    assert interpreter(tmp_path, path="both") == tmp_path / "both/python3"
    program("both/python")
    assert interpreter(tmp_path, path="both") == tmp_path / "both/python"


def test_a_bare_name_is_looked_up(tmp_path, program):
    made = program("bin/python3.9")
    assert interpreter(tmp_path, "python3.9", "bin") == made


@pytest.mark.parametrize("named", [".venv/bin/python", "./.venv/bin/python", "{folder}/.venv/bin/python"])
def test_a_path_is_relative_to_the_spec(tmp_path, program, named, monkeypatch):
    made = program(".venv/bin/python")
    monkeypatch.chdir("/")
    assert os.path.normpath(interpreter(tmp_path, named.format(folder=tmp_path))) == str(made)


def test_a_link_stays_a_link(tmp_path, program):
    program("real/python3.11")
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv/python").symlink_to(tmp_path / "real/python3.11")
    assert interpreter(tmp_path, path="venv") == tmp_path / "venv/python"


def test_a_relative_path_is_made_absolute(tmp_path, program, monkeypatch):
    made = program("bin/python")
    monkeypatch.chdir(tmp_path)
    assert find_interpreter(make_session(tmp_path).loaded, {"PATH": "bin"}) == made


@pytest.mark.parametrize("named", ["absent", "./absent", "/absent", "file", "."])
def test_an_interpreter_that_is_not_there(tmp_path, named):
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineError, match=r"run\.interpreter: there is no executable"):
        interpreter(tmp_path, named, ".")


def test_no_python_at_all(tmp_path):
    with pytest.raises(EngineError, match="no python on PATH") as caught:
        interpreter(tmp_path)
    assert "run.interpreter" in caught.value.hint


def test_where_things_go(tmp_path):
    session = make_session(tmp_path, H100)
    assert str(session.reference) == f"oci:{tmp_path}/layout:v3-h100-80gb-hbm3-sm90"
    assert session.shown_workload == "model:warm"
    cog = make_session(tmp_path, run=RunSpec(CogWorkload("sub", "predict.py:Predictor")))
    assert cog.shown_workload == "predict.py:Predictor"
    assert session.key != cog.key != make_session(tmp_path, CPU).key


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_work_folder_is_gone_afterwards(temporary):
    with work_folder() as folder:
        assert folder.parent == temporary
        assert folder.stat().st_mode & 0o777 == 0o711
        (folder / "deep" / "er").mkdir(parents=True)
        (folder / "deep" / "er" / "file").write_text("")
        (folder / "deep" / "er").chmod(0)
        (folder / "link").symlink_to(temporary)
    assert list(temporary.iterdir()) == []


def test_a_work_folder_is_gone_after_a_failure(temporary):
    with pytest.raises(KeyboardInterrupt), work_folder():
        raise KeyboardInterrupt
    assert list(temporary.iterdir()) == []


HOLD = """
import os, sys
from glowplug.build.session import work_folder
with work_folder() as folder:
    print(folder, flush=True)
    sys.stdin.read()
    os.kill(os.getpid(), 9)
"""


@pytest.fixture
def builder(temporary):
    """Another build, in a process of its own, that dies by SIGKILL once its stdin is closed."""
    source_root = Path(glowplug.__file__).parents[1]
    env = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(source_root)}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_the_folder_of_a_dead_builder_is_swept_and_that_of_a_live_one_is_not(builder):
    held = Path(builder.stdout.readline().strip())
    (held / "file").write_text("")
    with work_folder() as mine:
        assert mine != held
    assert (held / "file").exists()
    builder.stdin.close()
    assert builder.wait() == -9
    assert held.exists()
    with work_folder():
        assert not held.exists()


def test_what_only_looks_like_a_work_folder_stays(temporary):
    (temporary / "glowplug-build-new").mkdir()  # no lock yet: it is being made
    (temporary / "precious").mkdir()
    (temporary / "precious" / ".lock").write_text("")
    (temporary / "glowplug-build-link").symlink_to(temporary / "precious")
    (temporary / "glowplug-build-file").write_text("")
    before = sorted(temporary.rglob("*"))
    with work_folder():
        pass
    assert sorted(temporary.rglob("*")) == before


def test_no_room_for_a_work_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with (
        pytest.raises(GlowplugError, match="cannot make a work folder: No such file") as caught,
        work_folder(),
    ):
        pass
    assert "TMPDIR" in caught.value.hint


@pytest.mark.parametrize(
    ("target", "environ", "programs"),
    [
        (CPU, {}, ["g++"]),
        (CPU, {"CXX": "clang++"}, ["clang++"]),
        (H100, {}, ["gcc"]),
        (H100, {}, ["clang"]),
        (H100, {"CC": "icx"}, ["icx"]),
    ],
)
def test_the_compiler_that_torch_will_call_is_there(tmp_path, program, target, environ, programs):
    for name in programs:
        program(f"bin/{name}")
    path = {"PATH": str(tmp_path / "bin")}
    made = make_session(tmp_path, target, environ | path)
    session = replace(made, engine=LocalEngine(Path("/absent/python"), tmp_path, environ | path))
    require_compiler(session)
    for name in programs:
        (tmp_path / "bin" / name).unlink()
    with pytest.raises(ToolMissingError, match=programs[0].replace("+", r"\+")) as caught:
        require_compiler(session)
    assert "apt-get install" in caught.value.hint
