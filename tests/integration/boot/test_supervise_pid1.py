"""As PID 1 of a real PID namespace, where signals without a handler are dropped and orphans come by themselves."""

import os
import signal

import pytest

from integration.boot.supervisors import Supervisor, children_of, state_of, until
from integration.boot.test_supervise import LISTENER
from integration.services import find_program


@pytest.fixture
def as_pid_1(supervised):
    """Start it as PID 1; the ``Init`` that comes back has its process id out here."""

    def start(*command, **options) -> tuple[Supervisor, int]:
        unshare = find_program("unshare", package="util-linux")
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        supervisor = supervised(
            *command, before=(unshare, *user, "--pid", "--fork", "--mount-proc", "--kill-child"), **options
        )
        (pid,) = until(lambda: children_of(supervisor.process.pid))
        return supervisor, pid

    return start


def test_it_is_pid_1(as_pid_1):
    supervisor, _ = as_pid_1("sh", "-c", "echo $$ $PPID > pids")
    assert supervisor.end() == 0
    pid, parent = supervisor.wrote("pids").split()
    assert (int(pid) > 1, parent) == (True, "1")


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1]
)
def test_signals_have_their_default_effect_on_the_command(as_pid_1, number):
    supervisor, pid = as_pid_1("sh", "-c", "echo > state; exec sleep 1000")
    supervisor.wrote("state")
    os.kill(pid, number)
    assert supervisor.end() == 128 + number


def test_signals_reach_the_command(as_pid_1):
    supervisor, pid = as_pid_1("python3", "-c", LISTENER, grace_s=0.5)
    supervisor.wrote("state")
    for number in (signal.SIGWINCH, signal.SIGTERM):
        os.kill(pid, number)
        until(lambda number=number: str(int(number)) in supervisor.wrote("signals").split())
    assert supervisor.end() == 128 + signal.SIGKILL


def test_orphans_of_strangers_are_reaped(as_pid_1):
    """Of what enters the namespace later, as `docker exec` does."""
    supervisor, pid = as_pid_1("sh", "-c", "echo > state; exec sleep 1000")
    supervisor.wrote("state")
    (child,) = children_of(pid)
    enter = find_program("nsenter", package="util-linux")
    orphan = f"{enter} --target {pid} --pid --mount sh -c 'setsid sleep 0.3 & :'"
    assert os.system(orphan) == 0
    adopted = until(lambda: [other for other in children_of(pid) if other != child])
    until(lambda: not state_of(adopted[0]))
    assert children_of(pid) == [child]
    os.kill(pid, signal.SIGTERM)
    assert supervisor.end() == 128 + signal.SIGTERM


def test_orphans_of_the_command_are_reaped_and_ended(as_pid_1):
    script = "sh -c 'sleep 0.1 & sh -c \"sleep 1000 &\"'; echo > state; trap 'exit 5' TERM; while :; do sleep 0.05; done"  # fmt: skip
    supervisor, pid = as_pid_1("sh", "-c", script, on_stopped="process")
    supervisor.wrote("state")
    until(lambda: len(children_of(pid)) == 2)  # the command, and the sleeper
    os.kill(pid, signal.SIGTERM)
    assert supervisor.end() == 5
    # Had the sleeper still been there, the end of PID 1 would have had to kill it; on_stopped came after.
    assert ["on_stopped", True] in supervisor.events
