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
from functools import cached_property
from pathlib import Path, PurePath, PurePosixPath
from typing import IO

from glowplug.core.workspace import Workspace
from glowplug.engine.launch import Launch
from glowplug.errors import EngineError, ModelRunError

# nobody, on every Linux distribution: a user who owns nothing.
OTHER_UID = 65534
_POLL_S = 0.05
_TERMINATION_S = 5.0
# Names the run to which a process belongs, whatever session it made for itself.
_MARK = "GLOWPLUG_RUN_ID"
_MARK_ROUNDS = 10


class LocalEngine:
    """The machine that we are on, and an interpreter there.

    Attributes:
        python: the interpreter.
        environ: what the model's processes have before anyone adds to it.
        other_user: as whom ``Launch.as_other_user`` runs, in a few words.
        other_folder: what ``stand_in`` makes, in a few words.
    """

    other_folder = "another folder with links to the model's files"

    def __init__(self, interpreter: Path, folder: Path, environ: Mapping[str, str]) -> None:
        """Name the interpreter, the model's own folder, and the environment that the model inherits."""
        self.python = str(interpreter)
        self.environ = environ
        self._bin = str(interpreter.parent)
        self._folder = folder

    @property
    def other_user(self) -> str:
        """See ``Engine``."""
        return self._stranger[1]

    @cached_property
    def _stranger(self) -> tuple[list[str], str]:
        return other_user(self.python, self._folder)

    def workspace(self, here: Path) -> Workspace:
        """See ``Engine.workspace``: the folder itself."""
        return Workspace(here, PurePosixPath(here))

    def search_path(self, wanted: str) -> str:
        """See ``Engine.search_path``: Cog's server, and torch's workers, start whatever ``python`` means."""
        return f"{self._bin}{os.pathsep}{wanted}"

    def find_program(self, names: Sequence[str], path: str) -> str | None:
        """See ``Engine.find_program``."""
        return next((name for name in names if shutil.which(name, path=path)), None)

    def stand_in(self, workspace: Workspace) -> PurePosixPath | None:
        """See ``Engine.stand_in``: a folder of links."""
        folder = workspace.here / "cwd"
        folder.mkdir()
        for item in self._folder.iterdir():
            # A compiled-bytecode folder is the interpreter's to write, and belongs to whoever ran it before.
            if item.name != "__pycache__":
                (folder / item.name).symlink_to(item)
        return PurePosixPath(folder)

    def run(self, launch: Launch, on_tick: Callable[[float], None] = lambda _elapsed_s: None) -> int:
        """See ``Engine.run``."""
        prefix, _ = self._stranger if launch.as_other_user else ([], "")
        if prefix:
            for folder in launch.writable:
                _give_away(folder)
        started = time.monotonic()
        mark = uuid.uuid4().hex
        with launch.log.open("wb") as log:
            process = _start(
                [*prefix, *launch.argv], {**launch.env, _MARK: mark}, launch.cwd or self._folder, log
            )
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


def _start(
    argv: Sequence[str], env: Mapping[str, str], cwd: PurePath, log: IO[bytes]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise EngineError(
            f"cannot start {argv[0]}: {error.strerror}", hint="check run.interpreter in the spec"
        ) from error


def _give_away(folder: Path) -> None:
    """Make a folder and all in it the other user's."""
    os.chown(folder, OTHER_UID, OTHER_UID)
    for path, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(os.path.join(path, name), OTHER_UID, OTHER_UID, follow_symlinks=False)  # noqa: PTH118


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
