"""Keys and job control of a real terminal, with a real shell."""

import os
import pty
import select
import signal
import sys
import time
from pathlib import Path

import pytest

import glowplug
from integration.boot.supervisors import PROGRAM, children_of, until

COUNTER = """
import signal, time
interrupts = []
signal.signal(signal.SIGINT, lambda *_: interrupts.append(1))
print("count" "ing", flush=True)
while not interrupts:
    time.sleep(0.01)
time.sleep(0.2)
print("interrupts:", len(interrupts), flush=True)
"""


class Shell:
    """A bash with job control on a terminal of its own."""

    def __init__(self, folder):
        self.seen = ""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            environ = {**os.environ, "PYTHONPATH": str(Path(glowplug.__file__).parents[1]), "PS1": "$ "}
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], environ)
        self.run = f'{sys.executable} {PROGRAM} \'{{"events": "events"}}\''
        self.expect("$ ")

    def type(self, text):
        os.write(self.terminal, text.encode())

    def expect(self, text, meanwhile=""):
        """Wait until it is on the screen, below what was expected last; type something as long as nothing comes."""
        give_up = time.monotonic() + 30
        while text not in self.seen:
            assert time.monotonic() < give_up, self.seen
            if select.select([self.terminal], [], [], 0.1)[0]:
                self.seen += os.read(self.terminal, 4096).decode()
            else:
                self.type(meanwhile)
        before, _, self.seen = self.seen.partition(text)
        return before


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path)
    yield shell
    for child in children_of(shell.pid):
        os.kill(child, signal.SIGKILL)
    os.kill(shell.pid, signal.SIGKILL)
    os.close(shell.terminal)
    os.waitpid(shell.pid, 0)


# What is typed is on the screen too, so these words are not there in one piece.
READER = "sh -c 'echo star''ted; read line; echo got-$line'"


def test_a_command_can_read_the_terminal(shell):
    shell.type(f"{shell.run} {READER}; echo sta''tus $?\n")
    shell.expect("started")
    shell.type("words\n")
    shell.expect("got-words")
    shell.expect("status 0")
    shell.type("echo still-$((1 + 1))\n")  # the shell has its terminal back
    shell.expect("still-2")


def test_ctrl_c_arrives_once(shell, tmp_path):
    (tmp_path / "counter.py").write_text(COUNTER)
    shell.type(f"{shell.run} {sys.executable} counter.py; echo sta''tus $?\n")
    shell.expect("counting")
    shell.type("\x03")
    shell.expect("interrupts: 1")
    shell.expect("status 0")
    assert '"stopped": true' in (tmp_path / "events").read_text()


def test_ctrl_c_reaches_the_children_of_a_command_too(shell):
    """As without a supervisor: bash waits for its child, so it has to be reached."""
    shell.type(f"{shell.run} bash -c 'echo star''ted; sleep 1000; echo not reached'; echo sta''tus $?\n")
    shell.expect("started")
    shell.type("\x03")
    assert "not reached" not in shell.expect("status 130")


def test_ctrl_c_reaches_what_an_interactive_command_runs(shell):
    """It has the terminal's foreground by then, and job control of its own."""
    shell.type(f"PS1='in''ner> ' {shell.run} bash --norc --noprofile -i\n")
    shell.expect("inner> ")
    shell.type("sh -c 'echo star''ted; exec sleep 1000'\n")
    shell.expect("started")
    shell.type("\x03")
    shell.expect("inner> ")
    shell.type("exit 3\n")
    shell.expect("$ ")
    shell.type("echo sta''tus $?\n")
    shell.expect("status 3")


@pytest.mark.parametrize("has_read", [False, True])
def test_ctrl_z_stops_the_job_and_fg_continues_it(shell, tmp_path, has_read):
    """Whether it has the terminal's foreground, or never asked for it."""
    before = "echo ask''ing; read first;" if has_read else ""
    # No program to wait for: one that is stopped between vfork and exec keeps this shell from being stopped.
    wait = "until [ -e go ]; do :; done"
    shell.type(f"{shell.run} sh -c '{before} echo star''ted; {wait}; read line; echo got-$line'\n")
    if has_read:
        shell.expect("asking")
        shell.type("first\n")
    shell.expect("started")
    shell.type("\x1a")
    shell.expect("Stopped")
    shell.type("echo shell-$((1 + 1))\n")
    shell.expect("shell-2")
    shell.type("fg\n")
    shell.expect("supervised.py")
    shell.expect("\n")
    (tmp_path / "go").touch()
    shell.type("words\n")
    shell.expect("got-words")
    shell.expect("$ ")


def test_a_script_has_its_terminal_back(shell, tmp_path):
    """A shell without job control does not take it by itself."""
    (tmp_path / "script").write_text(f"{shell.run} {READER}\nread line\necho outer-$line\n")
    shell.type("sh script\n")
    shell.expect("started")
    shell.type("words\n")
    shell.expect("got-words")
    shell.type("more\n")
    shell.expect("outer-more")


def test_with_a_terminal_too_only_the_command_itself_gets_other_signals(shell, tmp_path):
    worker = "trap 'echo worker >> got' USR1; echo > state; while :; do sleep 0.05; done"
    server = "trap 'echo server >> got; exit' USR1; sh worker & while :; do sleep 0.05; done"
    (tmp_path / "worker").write_text(worker)
    (tmp_path / "server").write_text(server)
    shell.type(f"{shell.run} sh server &\n")
    until((tmp_path / "state").exists)
    shell.type("kill -USR1 $!; wait; echo sta''tus $?\n")
    shell.expect("status 0")
    assert (tmp_path / "got").read_text() == "server\n"


def test_a_job_in_the_background_stops_when_it_reads_and_goes_on_in_the_foreground(shell):
    shell.type(f"{shell.run} {READER} &\n")
    shell.expect("started")
    shell.expect("Stopped", meanwhile="jobs\n")
    shell.type("fg\n")
    shell.expect("supervised.py")
    shell.expect("\n")
    shell.type("words\n")
    shell.expect("got-words")


def test_a_job_in_the_background_leaves_the_foreground_to_the_shell(shell):
    shell.type(f"{shell.run} sh -c 'sleep 0.3; echo do''ne' &\n")
    shell.type("echo shell-$((1 + 1))\n")
    shell.expect("shell-2")
    shell.expect("done")
    shell.type("wait; echo sta''tus $?\n")
    shell.expect("status 0")
