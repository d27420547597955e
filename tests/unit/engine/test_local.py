import os
import signal
import sys
import time
from pathlib import Path, PurePosixPath

import pytest

from glowplug.core.workspace import Workspace
from glowplug.engine import local
from glowplug.engine.launch import Launch
from glowplug.engine.local import OTHER_UID, LocalEngine, other_user
from glowplug.engine.log import last_lines
from glowplug.errors import EngineError, ModelRunError

AS_ROOT = os.geteuid() == 0


def make_launch(argv, folder, env, timeout_s=20.0, *, other=False):
    workspace, given = Workspace(folder, PurePosixPath(folder)), folder / "given"
    given.mkdir()
    return Launch(argv, env, workspace, (given,), folder / "log", timeout_s, as_other_user=other)


@pytest.fixture
def launch(tmp_path):
    def make(code, *, other=False, timeout_s=20.0, **env):
        env = {"PATH": os.environ["PATH"], **env}
        return make_launch([sys.executable, "-c", code], tmp_path, env, timeout_s, other=other)

    return make


def run(launch, *on_tick):
    return LocalEngine(Path(sys.executable), launch.workspace.here, {}).run(launch, *on_tick)


def is_alive(pid):
    """Whether a process runs; one that is dead but not yet collected by its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for(condition):
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("", 0),
        ("raise SystemExit(7)", 7),
        ("import os; os._exit(255)", 255),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("import os; os.abort()", -signal.SIGABRT),
    ],
)
def test_the_status_is_the_command_s(launch, code, status):
    assert run(launch(code)) == status


def test_the_command_has_its_folder_its_environment_and_no_input(launch, tmp_path):
    asked = launch(
        "import os, sys; print(os.getcwd(), os.environ['A'], 'HOME' in os.environ, sys.stdin.read())", A="b"
    )
    assert run(asked) == 0
    assert asked.log.read_text() == f"{tmp_path} b False \n"


def test_the_log_has_both_outputs_in_order(launch):
    asked = launch("import os; os.write(1, b'one\\n'); os.write(2, b'two\\n'); os.write(1, b'three\\n')")
    assert run(asked) == 0
    assert asked.log.read_text() == "one\ntwo\nthree\n"


def test_a_command_is_looked_up_on_its_own_path(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tool").symlink_to("/bin/true")
    asked = make_launch(["tool"], tmp_path, {"PATH": str(tmp_path / "bin")})
    assert run(asked) == 0


@pytest.mark.parametrize("command", ["/absent/python", "absent-command"])
def test_a_command_that_cannot_be_started(tmp_path, command):
    asked = make_launch([command], tmp_path, {"PATH": "/bin"})
    with pytest.raises(EngineError, match=f"cannot start {command}: No such file"):
        run(asked)


def test_a_file_that_is_no_program(tmp_path):
    (tmp_path / "file").write_text("")
    asked = make_launch([str(tmp_path / "file")], tmp_path, {})
    with pytest.raises(EngineError, match="Permission denied"):
        run(asked)


def test_ticks_tell_the_elapsed_seconds(launch):
    ticks = []
    assert run(launch("import time; time.sleep(0.3)"), ticks.append) == 0
    assert ticks == sorted(ticks)
    assert len(ticks) >= 2


# A child that outlives its parent, one that leaves the session too, and one that ignores SIGTERM.
FAMILY = """
import os, signal, subprocess, sys, time
sleep = [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"]
children = [subprocess.Popen(sleep), subprocess.Popen(sleep, start_new_session=True)]
middle = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL).pid)"
grandchild = subprocess.run([sys.executable, "-c", middle, *sleep], stdout=subprocess.PIPE, text=True).stdout.strip()
print(*(child.pid for child in children), grandchild, flush=True)
"""


def family(launch):
    return [int(pid) for pid in launch.log.read_text().split()]


def test_nothing_outlives_the_command(launch):
    asked = launch(FAMILY)
    assert run(asked) == 0
    assert len(family(asked)) == 3
    wait_for(lambda: not any(map(is_alive, family(asked))))


def test_the_time_limit_stops_everything(launch, monkeypatch):
    monkeypatch.setattr(local, "_TERMINATION_S", 0.2)
    asked = launch(f"{FAMILY}\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(600)", timeout_s=1.0)
    with pytest.raises(ModelRunError, match="did not finish within 1 s") as caught:
        run(asked)
    assert "run.timeout_s" in caught.value.hint
    assert len(family(asked)) == 3
    wait_for(lambda: not any(map(is_alive, family(asked))))


def test_at_the_time_limit_a_command_may_clean_up(launch):
    asked = launch(
        "import signal, sys, time\n"
        "signal.signal(15, lambda *_: (print('cleaned up', flush=True), sys.exit()))\n"
        "time.sleep(600)",
        timeout_s=0.5,
    )
    with pytest.raises(ModelRunError):
        run(asked)
    assert asked.log.read_text() == "cleaned up\n"


def test_an_interrupt_stops_everything(launch):
    asked = launch(f"{FAMILY}\ntime.sleep(600)")

    def interrupt(_elapsed_s):
        if asked.log.read_text().endswith("\n"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(asked, interrupt)
    assert len(family(asked)) == 3
    wait_for(lambda: not any(map(is_alive, family(asked))))


@pytest.mark.parametrize(
    ("content", "count", "expected"),
    [
        (b"", 15, ""),
        (b"one\n\n  \ntwo  \n", 15, "one\ntwo"),
        (b"".join(b"%d\n" % n for n in range(100)), 3, "97\n98\n99"),
        (b"x" * 100_000 + b"\nend", 1, "end"),
        (b"\xff broken\n", 1, "\ufffd broken"),
    ],
)
def test_the_last_lines_of_a_log(tmp_path, content, count, expected):
    (tmp_path / "log").write_bytes(content)
    assert last_lines(tmp_path / "log", count) == expected


def test_a_long_line_s_end_is_enough(tmp_path):
    (tmp_path / "log").write_bytes(b"x" * 1_000_000)
    assert len(last_lines(tmp_path / "log")) < 20_000


def test_a_log_that_is_not_there_has_no_lines(tmp_path):
    assert last_lines(tmp_path / "absent") == ""


def test_the_other_user_reads_the_model_and_writes_only_what_is_given(launch, tmp_path):
    prefix, said = other_user(sys.executable, tmp_path)
    if not AS_ROOT:
        assert (prefix, said) == ([], f"same user ({os.geteuid()}); another one takes root")
        return
    assert said == f"other user ({OTHER_UID})"
    (tmp_path / "secret-to-others").write_text("read")
    (tmp_path / "secret-to-others").chmod(0o600)
    asked = launch(
        "import os\n"
        "print(os.getuid(), os.geteuid(), os.getgid(), open('secret-to-others').read())\n"
        "open('given/mine', 'w').close()\n"
        "for place in ('mine', 'secret-to-others', '/root/mine', '/etc/mine'):\n"
        "    try:\n"
        "        open(place, 'a').close()\n"
        "        print('wrote', place)\n"
        "    except OSError as error:\n"
        "        print(error.strerror)\n"
        "try:\n"
        "    os.setuid(0)\n"
        "    print('became root')\n"
        "except PermissionError:\n"
        "    print('stays')\n",
        other=True,
    )
    assert run(asked) == 0, asked.log.read_text()
    *lines, last = asked.log.read_text().splitlines()
    assert lines == [f"{OTHER_UID} {OTHER_UID} {OTHER_UID} read", *["Permission denied"] * 4]
    assert last == "stays"
    assert (tmp_path / "given" / "mine").stat().st_uid == OTHER_UID


def test_what_another_user_started_is_stopped_too(launch, tmp_path):
    asked = launch(FAMILY, other=True)
    assert run(asked) == 0
    wait_for(lambda: not any(map(is_alive, family(asked))))


def test_an_interpreter_that_another_user_cannot_run(tmp_path):
    prefix, said = other_user("/absent/python", tmp_path)
    assert prefix == []
    assert said.startswith("same user (")


def test_without_setpriv_the_user_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert other_user(sys.executable, tmp_path) == ([], "same user (0); setpriv is not installed")
