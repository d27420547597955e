"""One build's surroundings: the spec, the machine's facts, the engine and the folder that all its files are in."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from glowplug.build.spec_file import LoadedSpec
from glowplug.core.command_spec import CommandWorkload
from glowplug.core.facts import Facts
from glowplug.core.leaks import find_secrets, require_absent
from glowplug.core.oci import encode
from glowplug.core.record import build_key
from glowplug.core.reference import Reference
from glowplug.core.spec import PythonWorkload, Spec, version_tag
from glowplug.engine.launch import Engine
from glowplug.errors import GlowplugError, ToolMissingError
from glowplug.report.console import Console

_PREFIX = "glowplug-build-"
_LOCK = ".lock"


@dataclass(frozen=True)
class Session:
    """What every step of a build needs to know.

    Attributes:
        loaded: the spec, the version, and the folder that the spec's paths are relative to.
        facts: of this machine and the model's interpreter.
        engine: where the model runs.
        environ: the environment that the command was started in.
        work: this build's own folder.
        console: where to say what happens.
        pretended: fields of the target that are not this machine's own.
    """

    loaded: LoadedSpec
    facts: Facts
    engine: Engine
    environ: Mapping[str, str]
    work: Path
    console: Console
    pretended: frozenset[str] = frozenset()

    @property
    def spec(self) -> Spec:
        """The spec."""
        return self.loaded.spec

    @property
    def key(self) -> str:
        """What this build would make, as a digest."""
        image_id = self.loaded.image.id if self.loaded.image else ""
        return build_key(self.spec.digest(), self.loaded.version, self.facts, image_id)

    @property
    def reference(self) -> Reference:
        """Where this target's artifact goes: ``<repository>:<version>-<gpu type>``."""
        tag = f"{version_tag(self.loaded.version)}-{self.facts.target.gpu_type}"
        return Reference(self.spec.artifact, tag=tag)

    @property
    def secrets(self) -> dict[str, str]:
        """What must not be published or printed, by the name of its variable."""
        return find_secrets(self.environ, self.spec.run.secrets)

    @property
    def shown_workload(self) -> str:
        """The workload in a word or two, for people."""
        workload = self.spec.run.workload
        if isinstance(workload, CommandWorkload):
            return shlex.join(workload.command)
        return workload.target if isinstance(workload, PythonWorkload) else workload.ref


@contextmanager
def work_folder() -> Iterator[Path]:
    """Make a folder that is gone afterwards, however the build ends; first sweep what a kill -9 left.

    Raises:
        GlowplugError: there is no room for it.
    """
    try:
        parent = Path(tempfile.gettempdir())
        _sweep(parent)
        folder, lock = _make_locked(parent)
    except OSError as error:
        raise GlowplugError(
            f"cannot make a work folder: {error.strerror}", hint="set TMPDIR to a place with room"
        ) from error
    try:
        yield folder
    finally:
        _remove(folder)
        os.close(lock)


def _make_locked(parent: Path) -> tuple[Path, int]:
    """Make a folder, and hold its lock before another build can take it for a dead one's."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        # The replay runs as another user, who has to get through here to its own folder.
        folder.chmod(0o711)
        try:
            lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError:
            _remove(folder)
            raise
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / _LOCK).exists():
            return folder, lock
        os.close(lock)  # swept between two of these lines


def _sweep(parent: Path) -> None:
    """Remove work folders of this user whose builder is dead: nobody holds their lock any more."""
    for folder in parent.glob(f"{_PREFIX}*"):
        try:
            status = folder.lstat()
            # In a place for everyone, a link could lead to any folder.
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # being made, or removed, right now
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(folder)
        except BlockingIOError:
            pass  # a build that is alive
        finally:
            os.close(lock)


def _remove(folder: Path) -> None:
    # Not rmtree's ignore_errors alone: a model may have taken its own permissions away.
    for path, names, _ in os.walk(folder):
        for place in (Path(path, name) for name in names):
            if not place.is_symlink():
                with contextlib.suppress(OSError):
                    place.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def require_no_secret_in_spec(session: Session) -> None:
    """Stop before the model runs when something confidential would be published with its inputs or settings.

    Raises:
        GlowplugError: naming the secret's variable.
    """
    spec = session.spec.run
    written = {f"run.{spec.inputs_key}": spec.inputs, "run.env": dict(spec.env)}
    if isinstance(spec.workload, CommandWorkload):
        written["run.command"] = spec.workload.command
    for where, content in written.items():
        require_absent(session.secrets, encode(content), f"the spec's {where}")


def require_compiler(session: Session) -> None:
    """Find out before the model runs whether torch will find the compiler it needs.

    Inductor calls ``$CXX`` or ``g++`` (torch/_inductor/config.py, cpp.cxx); Triton's launcher needs ``$CC``, gcc or
    clang (triton/runtime/build.py).

    Raises:
        ToolMissingError: there is none.
    """
    environ = {**session.engine.environ, **session.spec.run.environment}
    if session.facts.target.device_kind == "cpu":
        wanted, names = "a C++ compiler", [environ.get("CXX", "g++")]
    else:
        wanted, names = "a C compiler", [environ["CC"]] if environ.get("CC") else ["gcc", "clang"]
    path = session.engine.search_path(environ.get("PATH", os.defpath))
    if session.engine.find_program(names, path) is None:
        raise ToolMissingError(
            f"torch.compile needs {wanted}, and '{' or '.join(names)}' is not on PATH",
            hint="apt-get install g++, or set CXX",
        )
