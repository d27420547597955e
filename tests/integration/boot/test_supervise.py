"""A supervised command behaves as if its supervisor were not there, and leaves nothing behind."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from integration.boot.supervisors import children_of, state_of, until

# Notes every signal that it gets, in order.
LISTENER = """
import signal, sys, time
log = open("signals", "a", buffering=1)
unstoppable = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}
for number in signal.valid_signals() - unstoppable:
    signal.signal(number, lambda number, _: log.write(f"{number}\\n"))
print("listening", file=open("state", "w"))
while True:
    time.sleep(1)
"""


# Shows how the dispositions and the mask were when it was started.
def signals_in(line):
    """Return the signals of a mask in /proc/PID/status, without those that the C library keeps to itself (32 and 33)."""
    mask = int(line.split()[1], 16)
    return {number for number in range(1, 65) if mask >> number - 1 & 1} - {32, 33}


DISPOSITIONS = "grep -E 'Sig(Blk|Ign)' /proc/self/status > state"
# fmt: off
FORWARDED = [
    "TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "WINCH", "CONT", "TSTP", "TTIN", "TTOU",
    "ALRM", "PROF", "VTALRM", "IO", "PWR", "ABRT", "URG", "XCPU", "RTMIN", "RTMAX",
]
# fmt: on
IGNORE_TERM = "trap '' TERM; echo > state; while :; do sleep 0.05; done"


@pytest.mark.parametrize("status", [0, 1, 2, 77, 126, 255])
def test_it_ends_with_the_command_s_status(supervised, status):
    supervisor = supervised("sh", "-c", f"exit {status}")
    assert supervisor.end() == status
    assert supervisor.ending == {
        "status": status,
        "signal": None,
        "was_ready": False,
        "failed_setup": False,
        "stopped": False,
    }
    assert supervisor.names == ["on_stopped", "on_stopped done", "ending"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGPIPE])
def test_a_killed_command_s_status_is_128_and_the_signal(supervised, number):
    supervisor = supervised("sh", "-c", f"kill -{int(number)} $$")
    assert supervisor.end() == 128 + number
    assert (supervisor.ending["signal"], supervisor.ending["stopped"]) == (number, False)


@pytest.mark.parametrize(
    ("command", "reason"),
    [("absent-program", "No such file or directory"), ("./plain", "Permission denied"), ("./x", "Exec format error")],
)  # fmt: skip
def test_a_command_that_cannot_be_started(supervised, command, reason):
    (supervised.folder / "plain").write_text("no program")
    (supervised.folder / "x").write_text("no program either")
    (supervised.folder / "x").chmod(0o755)
    supervisor = supervised(command)
    assert supervisor.end() == 1
    assert f"UsageError: cannot start {command}: {reason}" in supervisor.errors
    assert supervisor.events == []


def test_streams_and_descriptors_are_passed_through(supervised):
    supervisor = supervised("sh", "-c", "echo out; echo err >&2; ls /proc/$$/fd > state")
    assert supervisor.end() == 0
    assert (supervised.folder / "stdout").read_text() == "out\n"
    assert supervisor.errors == "err\n"
    # The descriptors of `ls` and the shell: the streams, and the file that is being written (1, and saved as 10).
    assert {int(name) for name in supervisor.wrote("state").split()} <= {0, 1, 2, 10}


def test_the_command_starts_with_default_signals(supervised):
    supervised("sh", "-c", f"exec {DISPOSITIONS}").end()
    lines = (supervised.folder / "state").read_text().splitlines()
    assert [signals_in(line) for line in lines] == [set(), set()]


def test_what_nohup_ignores_stays_ignored(supervised):
    supervisor = supervised("sh", "-c", f"{DISPOSITIONS}; echo; read forever < fifo", before=("nohup",))
    os.mkfifo(supervised.folder / "fifo")
    assert signals_in(supervisor.wrote("state").splitlines()[1]) == {signal.SIGHUP}
    supervisor.process.send_signal(signal.SIGHUP)
    supervisor.process.send_signal(signal.SIGTERM)
    assert supervisor.end() == 128 + signal.SIGTERM


def test_every_signal_is_forwarded_once(supervised):
    supervisor = supervised(sys.executable, "-c", LISTENER)
    supervisor.wrote("state")
    numbers = [int(getattr(signal, f"SIG{name}")) for name in FORWARDED]
    for count, number in enumerate(numbers, start=1):
        supervisor.process.send_signal(number)
        until(lambda count=count: len((supervised.folder / "signals").read_text().split()) >= count)
    os.kill(supervisor.child, signal.SIGKILL)
    assert supervisor.end() == 128 + signal.SIGKILL
    assert [int(word) for word in (supervised.folder / "signals").read_text().split()] == numbers


def test_a_signal_for_the_whole_group_arrives_once(supervised):
    """As from `timeout`, or a shell's `kill %1`."""
    supervisor = supervised(sys.executable, "-c", LISTENER)
    supervisor.wrote("state")
    for number in (signal.SIGTERM, signal.SIGUSR1):  # the second shows that the first is over
        os.killpg(supervisor.process.pid, number)
        until(lambda number=number: str(int(number)) in supervisor.wrote("signals").split())
    os.kill(supervisor.child, signal.SIGKILL)
    supervisor.end()
    assert (supervised.folder / "signals").read_text().split() == ["15", "10"]


def test_only_the_command_itself_gets_a_signal(supervised):
    worker = "trap 'echo worker >> got' USR1; echo > state; while :; do sleep 0.05; done"
    server = f"trap 'echo server >> got' USR1; sh -c \"{worker}\" & while :; do sleep 0.05; done"
    supervisor = supervised("sh", "-c", server)
    supervisor.wrote("state")
    supervisor.process.send_signal(signal.SIGUSR1)
    supervisor.wrote("got")
    supervisor.process.send_signal(signal.SIGTERM)
    supervisor.end()
    assert (supervised.folder / "got").read_text() == "server\n"


def test_asked_to_stop(supervised):
    supervisor = supervised("sh", "-c", "trap 'exit 9' TERM; echo > state; while :; do sleep 0.05; done")
    supervisor.wrote("state")
    supervisor.process.send_signal(signal.SIGTERM)
    assert supervisor.end() == 9
    assert supervisor.ending["stopped"]
    assert [event for event in supervisor.events if "done" not in event[0]][:-1] == [
        ["on_stopping", True],
        ["on_stopped", True],
    ]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_command_that_does_not_stop_is_killed_at_the_deadline(supervised, number):
    supervisor = supervised("sh", "-c", IGNORE_TERM.replace("TERM", "TERM INT QUIT"), grace_s=0.3)
    supervisor.wrote("state")
    supervisor.process.send_signal(number)
    assert supervisor.end() == 128 + signal.SIGKILL
    assert ["on_stopping", True] in supervisor.events
    assert ["on_stopped", False] in supervisor.events


def test_reloading_is_not_stopping(supervised):
    supervisor = supervised("sh", "-c", "trap 'echo >> reloaded' HUP; echo > state; while :; do sleep 0.05; done", grace_s=0.1)  # fmt: skip
    supervisor.wrote("state")
    supervisor.process.send_signal(signal.SIGHUP)
    supervisor.wrote("reloaded")
    time.sleep(0.3)  # longer than the grace period
    assert supervisor.process.poll() is None
    assert supervisor.names == []


def test_a_second_request_to_stop_is_forwarded_too(supervised):
    supervisor = supervised(sys.executable, "-c", LISTENER)
    supervisor.wrote("state")
    for count in (1, 2):
        supervisor.process.send_signal(signal.SIGINT)
        until(lambda count=count: len(supervisor.wrote("signals").split()) == count)
    os.kill(supervisor.child, signal.SIGKILL)
    supervisor.end()
    assert [event[0] for event in supervisor.events].count("on_stopping") == 1


def test_a_signal_that_comes_at_once_is_not_lost(supervised):
    """As soon as there is a child, which may not have become the command yet."""
    for number in (signal.SIGTERM, signal.SIGUSR1):
        supervisor = supervised("sleep", "1000")
        until(lambda supervisor=supervisor: children_of(supervisor.process.pid))
        supervisor.process.send_signal(number)
        assert supervisor.end() == 128 + number


def test_orphans_are_ended(supervised):
    """One that ends when asked, one that does not, one in a session of its own, one that leaves orphans itself."""
    script = """
    sh -c 'trap "echo > asked; exit" TERM; echo $$ > polite; while :; do sleep 0.05; done' &
    sh -c 'trap "" TERM; echo $$ > deaf; while :; do sleep 0.05; done' &
    setsid sh -c 'echo $$ > apart; exec sleep 1000' &
    sh -c 'sh -c "trap \\"\\" TERM; echo \\$\\$ > deep; while :; do sleep 0.05; done" & exec sleep 1000' &
    while ! [ -s polite -a -s deaf -a -s apart -a -s deep ]; do sleep 0.05; done
    """
    supervisor = supervised("sh", "-c", script, grace_s=1.0)
    assert supervisor.end() == 0
    pids = [int(supervisor.wrote(name)) for name in ("polite", "deaf", "apart", "deep")]
    assert [state_of(pid) for pid in pids] == [""] * 4
    assert (supervised.folder / "asked").exists()
    assert not supervisor.ending["stopped"]


def test_no_zombie_is_left_while_the_command_runs(supervised):
    orphan = "sh -c 'sleep 0.1 & echo $! >> pids'"
    supervisor = supervised(
        "sh", "-c", f"for i in 1 2 3 4 5; do {orphan}; done; echo > state; exec sleep 1000"
    )
    supervisor.wrote("state")
    for pid in supervisor.wrote("pids").split():
        until(lambda pid=pid: not state_of(int(pid)))
    assert children_of(supervisor.process.pid) == [supervisor.child]


def test_whoever_kills_the_supervisor_kills_the_command(supervised):
    supervisor = supervised("sleep", "1000")
    child = supervisor.child
    until(lambda: "sleep" in Path(f"/proc/{child}/cmdline").read_text())
    supervisor.process.kill()
    supervisor.end()
    until(lambda: state_of(child) in ("", "Z"))


def test_a_fault_in_the_supervisor_does_not_end_the_command(supervised):
    supervisor = supervised("sh", "-c", "trap 'echo >> got' USR1; trap 'exit 6' TERM; echo > state; while :; do sleep 0.05; done", crash=True)  # fmt: skip
    supervisor.wrote("state")
    supervisor.process.send_signal(signal.SIGUSR1)
    supervisor.wrote("got")
    until(
        lambda: (
            "ZeroDivisionError: division by zero (please report this); only waiting now" in supervisor.errors
        )
    )
    supervisor.process.send_signal(signal.SIGTERM)
    assert supervisor.end() == 6
