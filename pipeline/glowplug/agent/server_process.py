"""A server as a process: started in a session of its own, watched, and ended with everything that it started.

A stand-alone file for the model's environment: Python 3.9, the standard library, Linux.
"""

import os
import signal
import subprocess
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.05
# What a server leaves behind may end by itself, as a worker does that takes its model down; then it is killed.
_ORPHANS_S = 5.0
_KILLED_S = 10.0
_CHUNK_BYTES = 64 * 1024


class ServerError(Exception):
    """What is wrong with the server: one sentence, to which a traceback would add nothing."""


class ServerProcess:
    """A running server. Its output goes on to ours, and line by line to ``on_line``.

    ``on_end`` is called in a thread of its own, again and again, once the server has ended, until it is stopped.
    """

    def __init__(self, command, on_line, on_end):
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - no thread of ours is running yet
            )
        except OSError as error:
            raise ServerError("%s cannot be started: %s" % (command[0], error.strerror)) from error
        self._stopping = False
        self._reader = threading.Thread(target=self._read, args=(on_line,), daemon=True)
        self._reader.start()
        threading.Thread(target=self._watch, args=(on_end,), daemon=True).start()

    def end(self, within_s=0.0):
        """How it ended, in a few words; empty while it runs. A server that is about to end has ``within_s`` for it."""
        deadline = time.monotonic() + within_s
        while self._process.poll() is None:
            if time.monotonic() >= deadline:
                return ""
            time.sleep(_POLL_S)
        status = self._process.returncode
        return "was killed by signal %d" % -status if status < 0 else "ended with exit status %d" % status

    def stop(self, number, timeout_s):
        """Ask it to end, as ``docker stop`` does; return whether it had to be killed."""
        self._stopping = True
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return True
        self._end_orphans(_ORPHANS_S)
        return False

    def kill(self):
        """End it and everything that it started, at once."""
        self._stopping = True
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._end_orphans(0.0)

    def _end_orphans(self, patience_s):
        # They have become our children, whatever sessions they made for themselves: nobody else is left to be theirs.
        patience_ends = time.monotonic() + patience_s
        told = set()
        while True:
            _reap()
            left = descendants()
            now = time.monotonic()
            if not left:
                break
            if now > patience_ends + _KILLED_S:
                raise ServerError(
                    "the server left processes that nothing ends: %s" % ", ".join(map(str, sorted(left)))
                )
            number = signal.SIGTERM if now < patience_ends else signal.SIGKILL
            for pid in left:
                if (pid, number) not in told:
                    told.add((pid, number))
                    _send(pid, number)
            time.sleep(_POLL_S)
        self._reader.join(_POLL_S * 20)

    def _read(self, on_line):
        rest = b""
        source = self._process.stdout.fileno()
        while True:
            chunk = os.read(source, _CHUNK_BYTES)
            if not chunk:
                break
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
            *lines, rest = (rest + chunk).replace(b"\r", b"\n").split(b"\n")
            for line in lines:
                on_line(line.decode("utf-8", "replace"))
            rest = rest[-_CHUNK_BYTES:]
        on_line(rest.decode("utf-8", "replace"))

    def _watch(self, on_end):
        while not self._stopping:
            time.sleep(_POLL_S)
            if self._process.poll() is not None:
                on_end()


def descendants():
    """Return the ids of all processes below this one that have not ended."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            state, parent = _state_and_parent(name)
            if state not in ("", "Z", "X"):
                parents[int(name)] = parent
    found, before = {os.getpid()}, 0
    while len(found) > before:
        before = len(found)
        found.update(pid for pid, parent in parents.items() if parent in found)
    return found - {os.getpid()}


def _state_and_parent(pid):
    """Read proc(5), stat: the name in the second field may hold spaces and parentheses."""
    try:
        with open("/proc/%s/stat" % pid, "rb") as stream:
            fields = stream.read().rsplit(b")", 1)[1].split()
    except (OSError, IndexError):  # gone
        return "", 0
    return fields[0].decode(), int(fields[1])


def _reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _send(pid, number):
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _die_with_parent():
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option, value):
    try:
        import ctypes

        ctypes.CDLL(None).prctl(option, value)
    except (ImportError, OSError, AttributeError):  # whoever started us cleans up behind us as well
        pass
