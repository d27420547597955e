"""A model that does not do what it should: its last lines are shown, and nothing of it survives."""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from pathlib import Path

import pytest

from integration.bad_input.project import Project

FAILURES = {
    "import": (
        "import time\nraise RuntimeError('no weights here')",
        ["before it was ready", "no weights here", "  | "],
    ),
    "module": ("import nonsuch", ["ModuleNotFoundError", "nonsuch"]),
    "syntax": ("def warm(:", ["SyntaxError"]),
    "first call": ("def warm(): raise ValueError('bad shape')", ["at inputs[0]", "bad shape"]),
    "wrong arguments": ("def warm(width): pass", ["at inputs[0]", "width"]),
    "missing callable": ("", ["before it was ready", "has no attribute 'warm'"]),
    "not callable": ("warm = 3", ["model:warm is a int, not a callable"]),
    "os._exit(0)": ("import os\ndef warm(): os._exit(0)", ["at inputs[0]", "exit status 0"]),
    "os._exit(3)": ("import os\nos._exit(3)", ["before it was ready", "exit status 3"]),
    "sys.exit": ("import sys\ndef warm(): sys.exit()", ["SystemExit"]),
    "kill": ("import os\ndef warm(): os.kill(os.getpid(), 9)", ["at inputs[0]", "signal 9"]),
    "abort": ("import os\ndef warm(): os.abort()", ["at inputs[0]", "signal 6"]),
    "segmentation fault": (
        "import os, signal\ndef warm(): os.kill(os.getpid(), signal.SIGSEGV)",
        ["signal 11"],
    ),
    "interrupt": ("def warm(): raise KeyboardInterrupt", ["KeyboardInterrupt"]),
    "megabytes": (
        "for _ in range(3): print('x' * 2_000_000)\nprint('the end')\nraise ValueError",
        ["the end"],
    ),
    "a long error": ("raise ValueError('x' * 5_000_000)", ["ValueError: xxx"]),
    "no text": (
        "import sys\nsys.stdout.buffer.write(b'caf\\xe9 \\xff\\x00')\nraise ValueError('caf\\udce9')",
        ["before it was ready", "caf"],
    ),
    "streams closed": ("import os\nos.closerange(0, 4096)\ndef warm(): raise ValueError('gone')", ["gone"]),
    "another folder": (
        "import os\nos.chdir('/')\ndef warm(): raise ValueError('lost')",
        ["at inputs[0]", "lost"],
    ),
    "no TMPDIR": (
        "import os, shutil\nshutil.rmtree(os.environ['TMPDIR'])\ndef warm(): raise ValueError('full')",
        ["at inputs[0]", "full"],
    ),
    "no permissions": (
        "import os\nd = os.environ['TMPDIR'] + '/a/b'\nos.makedirs(d)\nos.chmod(d, 0)\nos.chmod(d[:-2], 0)\nraise ValueError('x')",
        ["ValueError: x"],
    ),
    "a thread that never ends": (
        "import os, threading, time\nif 'TORCH_COMPILE_DISABLE' in os.environ: raise SystemExit\nthreading.Thread(target=time.sleep, args=(600,)).start()\nraise ValueError('busy')",
        ["busy"],
    ),
    "torch that does not load": ("import sys\nsys.modules['torch'] = None\nimport torch", ["torch"]),
}


@pytest.mark.parametrize("model", FAILURES.values(), ids=FAILURES)
def test_a_model_that_fails_is_shown_with_its_last_lines(
    project: Project, model: tuple[str, list[str]]
) -> None:
    code, words = model
    project.model(code)
    outcome = project.build()
    outcome.refused(30, "model:warm failed in the cold run", *words)
    assert len(outcome.stderr) < 40_000
    assert project.untouched()


def test_the_input_that_fails_is_counted(project: Project) -> None:
    project.model(
        "import os\n"
        "if 'TORCH_COMPILE_DISABLE' in os.environ: raise SystemExit('not now')\n"
        "def warm(n):\n"
        "    print('working on', n)\n"
        "    return 1 / n\n"
    )
    project.spec_with(inputs="[4, 0]")
    project.build().refused(30, "at inputs[1]", "ZeroDivisionError", "| working on 0")
    assert project.untouched()


def test_a_module_that_is_not_there(project: Project) -> None:
    (project.folder / "model.py").unlink()
    project.build().refused(30, "No module named 'model'")


def test_a_model_that_hangs_is_stopped(project: Project) -> None:
    project.spec_with(timeout_s="1")
    project.model(
        "import os, time\n"
        "if 'TORCH_COMPILE_DISABLE' in os.environ: raise SystemExit('not now')\n"
        "print('still loading', flush=True)\n"
        "time.sleep(600)\n"
    )
    project.build().refused(30, "did not finish within 1 s", "timeout_s")
    assert project.untouched()


def test_what_a_model_left_running_is_killed(project: Project) -> None:
    project.model(
        "import os, subprocess, sys, time\n"
        "code = 'import time; time.sleep(600)'\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "pids = [subprocess.Popen([sys.executable, '-c', code]).pid]\n"
        "pids += [subprocess.Popen([sys.executable, '-c', code], start_new_session=True).pid]\n"
        "pid = os.fork()\n"
        "if not pid: time.sleep(600)\n"
        "with open(here + '/pids', 'a') as file: print(*pids, pid, file=file)\n"
        "raise ValueError('the children live on')\n"
    )
    project.build().refused(30, "the children live on")
    pids = [int(pid) for pid in (project.folder / "pids").read_text().split()]
    assert len(pids) == 6
    assert [pid for pid in pids if alive(pid)] == []
    assert project.untouched()


def test_a_secret_that_the_model_prints_is_not_repeated(project: Project) -> None:
    project.spec_with(secrets="[WEIGHTS_LOGIN]")
    project.model("import os\nraise ValueError('login ' + os.environ['WEIGHTS_LOGIN'] + ' failed')\n")
    outcome = project.build(env={"WEIGHTS_LOGIN": "correct horse battery"})
    outcome.refused(30, "login $WEIGHTS_LOGIN failed")
    assert "correct horse" not in outcome.stderr


def executable(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_an_interpreter_that_is_not_there(project: Project) -> None:
    project.spec_with(seed="0")
    project.spec((project.folder / "glowplug.yaml").read_text().replace(sys.executable, ".venv/bin/python"))
    project.build().refused(31, "run.interpreter", ".venv/bin/python")
    assert not project.model_ran
    assert project.untouched()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("#!/bin/true\n", "is no Python interpreter"),
        ("#!/bin/cat\n", "does not work"),
        ("#!/bin/sh\necho out of order >&2; exit 1\n", "out of order"),
        ("#!/nonexistent/python\n", "No such file"),
        ("no program at all", "Exec format"),
        ("#!/bin/sh\nprintf '\\377\\376'\n", "is no Python interpreter"),
        ("#!/bin/sh\nprintf '\\377' >&2; exit 3\n", "does not work"),
        ("#!/bin/sh\nkill -9 $$\n", "does not work"),
    ],
)
def test_an_interpreter_that_is_none(project: Project, script: str, words: str) -> None:
    python = executable(project.folder / "python", script)
    project.spec((project.folder / "glowplug.yaml").read_text().replace(sys.executable, python))
    project.build().refused(31, python, words)
    assert not project.model_ran
    assert project.untouched()


def test_an_interpreter_without_torch(project: Project) -> None:
    python = executable(project.folder / "python", f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    project.spec((project.folder / "glowplug.yaml").read_text().replace(sys.executable, python))
    project.build().refused(31, python, "has no torch")
    assert not project.model_ran


def test_no_interpreter_on_the_path(project: Project, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    project.spec(
        (project.folder / "glowplug.yaml").read_text().replace(f"  interpreter: {sys.executable}\n", "")
    )
    project.build(env={"PATH": str(empty)}).refused(31, "no python on PATH")


def test_a_relative_folder_on_the_path_still_names_the_interpreter(project: Project) -> None:
    (project.folder / "env").symlink_to(sys.prefix)
    (project.folder / "sub").mkdir()
    project.model("raise ValueError('found')")
    (project.folder / "model.py").rename(project.folder / "sub" / "model.py")
    project.spec(
        (project.folder / "glowplug.yaml").read_text().replace(f"interpreter: {sys.executable}", "dir: sub")
    )
    project.build(env={"PATH": f"env/bin{os.pathsep}{os.environ['PATH']}"}).refused(30, "ValueError: found")


@pytest.mark.parametrize("variables", [{}, {"CXX": "no-such-compiler"}, {"CXX": ""}])
def test_no_compiler(project: Project, tmp_path: Path, variables: dict[str, str]) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    path = os.environ["PATH"] if variables else str(empty)
    python = executable(project.folder / "python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    project.spec((project.folder / "glowplug.yaml").read_text().replace(sys.executable, python))
    project.build(env={"PATH": path, **variables}).refused(32, "a C++ compiler", "CXX")
    assert not project.model_ran
    assert project.untouched()


def test_modules_of_run_env_are_found(project: Project) -> None:
    (project.folder / "lib").mkdir()
    (project.folder / "lib" / "helper.py").write_text("raise ValueError('the helper was found')\n")
    project.model("import helper\n")
    project.spec_with(env=f"{{PYTHONPATH: '{project.folder / 'lib'}'}}")
    project.build().refused(30, "the helper was found")


def alive(pid: int) -> bool:
    """Whether a process still runs; one that nobody has reaped does not."""
    for _ in range(40):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return False
        if state == "Z":
            return False
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    return True
