import os
import sys
from pathlib import Path

import pytest

from glowplug.errors import EngineError
from glowplug.host import python_env
from glowplug.host.python_env import read_python_env


def write(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def install_torch(folder, version_py):
    write(folder / "torch/__init__.py", "raise SystemExit('torch was imported')\n")
    write(folder / "torch/version.py", version_py)


@pytest.fixture
def interpreter(tmp_path):
    """Return a script that stands for an interpreter: the running one with one folder of packages."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}/site exec {sys.executable} -S "$@"\n')
    script.chmod(0o755)
    return script


def test_a_cuda_torch(interpreter, tmp_path):
    install_torch(
        tmp_path / "site",
        "from typing import Optional\n__all__ = ['cuda']\n__version__ = '2.9.1+cu130'\ndebug = False\n"
        "cuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n",
    )
    write(tmp_path / "site/triton/__init__.py", "__version__ = '3.5.1'\n")
    (tmp_path / "site/triton-3.5.1+git0add6826.dist-info").mkdir()
    env = read_python_env(interpreter)
    assert (env.torch, env.cuda, env.hip, env.accelerator) == ("2.9.1+cu130", "13.0", "", "13.0")
    assert env.triton == "3.5.1+git0add6826"
    assert env.python == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert (env.os, env.machine) == ("linux", os.uname().machine)
    assert str(tmp_path / "site") in env.paths


@pytest.mark.parametrize(
    "distribution", ["pytorch_triton_rocm-3.5.1", "pytorch_triton-3.5.1", "triton_rocm-3.5.1"]
)
def test_a_rocm_torch_and_its_triton(interpreter, tmp_path, distribution):
    install_torch(
        tmp_path / "site", "__version__ = '2.9.1+rocm6.4'\ncuda = None\nhip = '6.4.43484-123eb5128'\n"
    )
    write(tmp_path / "site/triton/__init__.py")
    (tmp_path / f"site/{distribution}.dist-info").mkdir()
    env = read_python_env(interpreter)
    assert (env.hip, env.accelerator, env.triton) == ("6.4.43484-123eb5128", "6.4.43484-123eb5128", "3.5.1")


def test_a_version_file_that_cannot_be_read_leaves_the_distribution_s_version(interpreter, tmp_path):
    install_torch(tmp_path / "site", "__version__ = = 1\n")
    (tmp_path / "site/torch-2.8.0+cu128.dist-info").mkdir()
    (tmp_path / "site/torchvision-0.23.0.dist-info").mkdir()
    env = read_python_env(interpreter)
    assert (env.torch, env.accelerator) == ("2.8.0+cu128", "")


def test_no_torch_is_a_value(interpreter, tmp_path):
    write(tmp_path / "site/torch/lib/leftover.so")
    env = read_python_env(interpreter)
    assert (env.torch, env.accelerator, env.triton) == ("", "", "")


def test_what_a_site_hook_prints_does_not_matter(tmp_path):
    install_torch(tmp_path / "site", "__version__ = '2.13.0'\n")
    write(tmp_path / "site/sitecustomize.py", "print('{welcome', end='')\n")
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}/site exec {sys.executable} "$@"\n')
    script.chmod(0o755)
    assert read_python_env(script).torch == "2.13.0"


def test_pythonpath_comes_first_as_it_does_for_the_model(interpreter, tmp_path, monkeypatch):
    install_torch(tmp_path / "mine", "__version__ = '2.0.0+mine'\n")
    interpreter.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "mine"))
    assert read_python_env(interpreter).torch == "2.0.0+mine"


def test_the_running_interpreter_is_not_started_again(tmp_path, monkeypatch):
    install_torch(tmp_path, "__version__ = '2.1.0+here'\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(python_env, "_ask", lambda interpreter: pytest.fail("a process was started"))
    assert read_python_env(None).torch == "2.1.0+here"
    assert read_python_env(Path(sys.executable)).torch == "2.1.0+here"


def test_a_link_to_the_running_interpreter_is_another_environment(tmp_path):
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    assert not python_env._is_running(link)


def test_a_missing_interpreter(tmp_path):
    with pytest.raises(EngineError, match=r"cannot run .*/no-python: No such file"):
        read_python_env(tmp_path / "no-python")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "echo Traceback >&2; echo \"ModuleNotFoundError: No module named 'encodings'\" >&2; exit 1",
            "encodings",
        ),
        ("exit 3", "does not work: it says nothing"),
        ("echo hello", "is no Python interpreter"),
        ("echo '[]'", "is no Python interpreter"),
    ],
)
def test_a_broken_interpreter_ends_with_its_last_line(interpreter, script, message):
    interpreter.write_text(f"#!/bin/sh\n{script}\n")
    with pytest.raises(EngineError, match=message):
        read_python_env(interpreter)


def test_an_interpreter_that_hangs(interpreter, monkeypatch):
    monkeypatch.setattr(python_env, "PROBE_TIMEOUT_S", 0.2)
    interpreter.write_text("#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(EngineError, match="gave no answer"):
        read_python_env(interpreter)
