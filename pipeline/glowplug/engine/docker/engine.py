"""Runs a command of the model's in a new container of the model's image, and brings home what it left."""

from __future__ import annotations

import contextlib
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from glowplug.core.image import ModelImage
from glowplug.core.image_spec import ImageSpec
from glowplug.core.workspace import Workspace
from glowplug.engine.docker.archives import Access
from glowplug.engine.docker.client import Client, connect
from glowplug.engine.docker.containers import Command, Container, container_config, made_container
from glowplug.engine.docker.explanations import explain_exit
from glowplug.engine.docker.image import owner_ids
from glowplug.engine.docker.owners import labels, sweep, this_process
from glowplug.engine.docker.preflight import find_image, require_room
from glowplug.engine.launch import Launch
from glowplug.engine.log import tail
from glowplug.errors import EngineError, ModelRunError

# nobody, on every Linux distribution: a user who owns nothing.
OTHER_UID = 65534
_POLL_S = 0.2
_REFRESH_S = 2.0
_TERMINATION_S = 5
_DAY_S = 24 * 3600.0
_GLANCE_TIMEOUT_S = 60.0
# Exit statuses that a container's init makes of signals.
_SIGNALLED = range(129, 129 + 64)
# What a shell searches when nothing sets PATH, and what the engine sets then.
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class DockerModel:
    """A model that lies in an image.

    Attributes:
        spec: the image, and how its containers are made.
        spec_folder: what relative paths of volumes are relative to.
        interpreter: the model's Python in the image, a path or a name on its PATH; ``None`` for ``python``, else
            ``python3``.
        dir: the model's folder, relative to the image's working directory.
    """

    spec: ImageSpec
    spec_folder: Path
    interpreter: str | None = None
    dir: str = "."


@contextlib.contextmanager
def docker_engine(
    model: DockerModel, environ: Mapping[str, str], on_progress: Callable[[str], None]
) -> Iterator[DockerEngine]:
    """Reach the engine, remove what killed builds left there, and make sure that the image is there and fits.

    Args:
        model: what will run.
        environ: says where the engine is (DOCKER_HOST, DOCKER_CONTEXT, DOCKER_TLS_VERIFY, DOCKER_CERT_PATH).
        on_progress: gets a few words now and then while the image is pulled.

    Raises:
        EngineError: no engine answers; the image has no Python, is made for another architecture, or has no room.
        NotFoundError, DeniedError, UnavailableError: the image cannot be pulled.
        ToolMissingError: docker-py is not installed.
    """
    with connect(environ) as client:
        sweep(client)
        image = find_image(client, model.spec, on_progress)
        require_room(client, image)
        # Never started: it shows what is in the image.
        command = Command(("true",), {}, labels(this_process(), _DAY_S))
        config = container_config(image, model.spec, model.spec_folder, command)
        with made_container(client, image, config) as shown:
            yield DockerEngine(client, image, model, shown)


class DockerEngine:
    """An image, and an engine to run it on.

    Attributes:
        image: what the engine says about the image.
        notes: what a user should know about it.
        python: the model's Python in the image.
        environ: the image's own environment.
        other_folder: what ``stand_in`` makes, in a few words.
    """

    other_folder = "the image's own folder"

    def __init__(self, client: Client, image: ModelImage, model: DockerModel, shown: Container) -> None:
        """Look into ``shown``, a container of the image.

        Raises:
            EngineError: there is no Python in it, or its USER is nobody whom it knows.
        """
        self.image = image
        self.environ = image.env
        self.notes = _notes(image, model.spec)
        self._client = client
        self._model = model
        self._shown = shown
        self._cwd = image.workdir / model.dir
        tables = (shown.read("/etc/passwd"), shown.read("/etc/group")) if image.user else ("", "")
        self._owner = owner_ids(image.user, *tables)
        self.python = self._find_python()

    @cached_property
    def other_user(self) -> str:
        """See ``Engine.other_user``; in an image, another user can read what the image lets others read."""
        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder, "empty")
            here.mkdir()
            glance = Launch(
                (self.python, "-c", "import os; os.listdir('.')"),
                {},
                self.workspace(here),
                (),
                Path(folder, "log"),
                _GLANCE_TIMEOUT_S,
            )
            try:
                able = self._run(glance, lambda _elapsed_s: None, (OTHER_UID, OTHER_UID)) == 0
            except (EngineError, ModelRunError):
                able = False  # not even its Python
        if able:
            return f"other user ({OTHER_UID})"
        return f"same user ({self._owner[0]}); another one cannot read the model"

    def workspace(self, here: Path) -> Workspace:
        """See ``Engine.workspace``: a folder that no image has, below the root, which every image has."""
        return Workspace(here, PurePosixPath(f"/glowplug-{uuid.uuid4().hex[:12]}"))

    def search_path(self, wanted: str) -> str:
        """See ``Engine.search_path``."""
        parent = str(PurePosixPath(self.python).parent)
        return wanted if wanted.split(":", maxsplit=1)[0] == parent else f"{parent}:{wanted}"

    def find_program(self, names: Sequence[str], path: str) -> str | None:
        """See ``Engine.find_program``."""
        return next((name for name in names if self._locate(name, path)), None)

    def stand_in(self, _workspace: Workspace) -> PurePosixPath | None:
        """See ``Engine.stand_in``: wherever the image runs, the model is in the same folder."""
        return None

    def run(self, launch: Launch, on_tick: Callable[[float], None]) -> int:
        """See ``Engine.run``.

        Raises:
            EngineError: the engine refuses, or the command is not in the image.
            ModelRunError: it needed more memory than there is, or more time than ``timeout_s``.
        """
        as_other = launch.as_other_user and self.other_user.startswith("other")
        return self._run(launch, on_tick, (OTHER_UID, OTHER_UID) if as_other else None)

    def _run(
        self, launch: Launch, on_tick: Callable[[float], None], other_user: tuple[int, int] | None
    ) -> int:
        command = Command(
            tuple(launch.argv),
            launch.env,
            labels(this_process(), launch.timeout_s),
            launch.cwd or self._cwd,
            None if other_user is None else f"{other_user[0]}:{other_user[1]}",
        )
        config = container_config(self.image, self._model.spec, self._model.spec_folder, command)
        with made_container(self._client, self.image, config) as container:
            container.send(
                launch.workspace.here, launch.workspace.seen_at, _access(launch, other_user or self._owner)
            )
            container.start()
            with container.logged_to(launch.log):
                in_time = _await_end(container, launch, on_tick)
                if not in_time:
                    container.stop(_TERMINATION_S)
            for folder in launch.writable:
                if folder not in launch.scratch:
                    container.fetch(launch.workspace.seen(folder), folder)
            state = container.state()
        if not in_time:
            raise ModelRunError(
                f"the model did not finish within {launch.timeout_s:g} s",
                hint="raise run.timeout_s, or warm fewer inputs",
            )
        error = explain_exit(
            self.image.reference, state.exit_code, tail(launch.log), out_of_memory=state.out_of_memory
        )
        if error is not None:
            raise error
        return 128 - state.exit_code if state.exit_code in _SIGNALLED else state.exit_code

    def _find_python(self) -> str:
        path = self.environ.get("PATH") or _DEFAULT_PATH
        wanted = [self._model.interpreter] if self._model.interpreter else ["python", "python3"]
        found = next((place for name in wanted if (place := self._locate(name, path))), None)
        if found is None:
            raise EngineError(
                f"{self.image.reference} has no {' and no '.join(wanted)} on its PATH",
                hint="name the image's Python in run.interpreter",
            )
        return str(found)

    def _locate(self, name: str, path: str) -> PurePosixPath | None:
        # As execvp(3) has it: a name with a slash is a path, and an empty entry the working directory.
        folders = [""] if "/" in name else path.split(":")
        places = (self._cwd / folder / name for folder in folders)
        return next((place for place in places if self._shown.has_program(place)), None)


def _access(launch: Launch, owner: tuple[int, int]) -> Callable[[Path], Access]:
    """Give what the command writes to its user, and the rest to root; all of it can be read."""

    def access_to(path: Path) -> Access:
        executable = 0o111 if path.is_dir() else path.lstat().st_mode & 0o111
        if any(path.is_relative_to(folder) for folder in launch.writable):
            # For everyone, since an entrypoint may change to another user yet.
            return Access(*owner, 0o666 | executable)
        return Access(0, 0, 0o644 | executable)

    return access_to


def _await_end(container: Container, launch: Launch, on_tick: Callable[[float], None]) -> bool:
    """Wait until the command has ended; return whether it did in time."""
    started = time.monotonic()
    refreshed_s = 0.0
    while container.state().running:
        elapsed_s = time.monotonic() - started
        if elapsed_s > launch.timeout_s:
            return False
        if elapsed_s - refreshed_s >= _REFRESH_S:
            refreshed_s = elapsed_s
            for folder in launch.watched:
                # A file that is being written makes a broken archive; the next look will do.
                with contextlib.suppress(EngineError, ModelRunError):
                    container.fetch(launch.workspace.seen(folder), folder)
        on_tick(elapsed_s)
        time.sleep(_POLL_S)
    return True


def _notes(image: ModelImage, spec: ImageSpec) -> tuple[str, ...]:
    if image.expects_gpu and spec.gpus is None:
        return (f"{image.reference} is made for NVIDIA GPUs, but run.docker.gpus asks for none",)
    return ()
