"""Runs a command of the model's on this machine, as a child that never outlives us."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from glowplug.errors import EngineError, ModelRunError

# nobody, on every Linux distribution: a user who owns nothing.
OTHER_UID = 65534
_POLL_S = 0.05
_TERMINATION_S = 5.0
# Names the run to which a process belongs, whatever session it made for itself.
_MARK = "GLOWPLUG_RUN_ID"
_MARK_ROUNDS = 10
_TAIL_BYTES = 16 * 1024


@dataclass(frozen=True)
class Launch:
    """One command to run.

    Attributes:
        argv: the command; its first word is looked up on ``env``'s PATH.
        cwd: its working directory.
        env: its whole environment.
        log: file that gets its stdout and stderr.
        timeout_s: how long it may take.
    """

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    log: Path
    timeout_s: float


def run(launch: Launch, on_tick: Callable[[float], None] = lambda _elapsed_s: None) -> int:
    """Run a command to its end and return its exit status (negative: the signal that killed it).

    Whatever the command started, and left running, is killed when this returns or is interrupted. ``on_tick`` is called some times a second with the elapsed seconds.

    Raises:
        EngineError: the command cannot be started.
        ModelRunError: it was still running after ``timeout_s``, and was stopped.
    """
    started = time.monotonic()
    mark = uuid.uuid4().hex
    with launch.log.open("wb") as log:
        try:
            process = subprocess.Popen(
                list(launch.argv),
                cwd=launch.cwd,
                env={**launch.env, _MARK: mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise EngineError(
                f"cannot start {launch.argv[0]}: {error.strerror}", hint="check run.interpreter in the spec"
            ) from error
        try:
            while process.poll() is None:
                elapsed_s = time.monotonic() - started
                if elapsed_s > launch.timeout_s:
                    _stop(process)
                    raise ModelRunError(
                        f"the model did not finish within {launch.timeout_s:g} s",
                        hint="raise run.timeout_s, or warm fewer inputs",
                    )
                on_tick(elapsed_s)
                time.sleep(_POLL_S)
            return process.returncode
        finally:
            _kill_session(process)
            _kill_marked(mark)


def other_user(interpreter: str, folder: Path) -> tuple[list[str], str]:
    """Find out how to run a command as another user, who can read what the model needs but writes only its own.

    Returns the words that go before the command, and what to say about it. Without root there is no other user to
    become: then the words are empty.
    """
    if os.geteuid() != 0:
        return [], f"same user ({os.geteuid()}); another one takes root"
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return [], "same user (0); setpriv is not installed"
    become = [setpriv, f"--reuid={OTHER_UID}", f"--regid={OTHER_UID}", "--keep-groups"]
    # Models live in places that only root may enter, such as /root. The capability lets the other user read them,
    # and nothing more; containers that lack it usually have readable models.
    reading = [*become, "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    check = [interpreter, "-c", "import os, sys; os.listdir(sys.argv[1])", str(folder)]
    for prefix in (reading, become):
        done = subprocess.run([*prefix, "--", *check], capture_output=True, check=False)
        if done.returncode == 0:
            return [*prefix, "--"], f"other user ({OTHER_UID})"
    return [], "same user (0); another one cannot read the model"


def last_lines(log: Path, count: int = 15) -> str:
    """Return the end of a log, for the sentence that says why a run failed."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read(_TAIL_BYTES).decode(errors="replace")
    except OSError:
        return ""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-count:])


def _stop(process: subprocess.Popen[bytes]) -> None:
    _signal_session(process, signal.SIGTERM)
    try:
        process.wait(_TERMINATION_S)
    except subprocess.TimeoutExpired:
        _kill_session(process)


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    _signal_session(process, signal.SIGKILL)
    process.wait()


def _kill_marked(mark: str) -> None:
    """Kill what left the session, by the environment it was started with; a fork may be faster than one look."""
    for _ in range(_MARK_ROUNDS):
        found = [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _has_mark(pid, mark)]  # noqa: PTH208
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)


def _has_mark(pid: int, mark: str) -> bool:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # another user's, or gone
        return False
    return f"{_MARK}={mark}".encode() in environ.split(b"\0")


def _signal_session(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    # The group keeps its number for as long as one member lives, so this reaches what the leader left behind.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
