"""Runs a command of the model's in a new container of the model's image, and brings home what it left."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from glowplug.core.image_spec import ImageSpec
from glowplug.core.workspace import Workspace
from glowplug.engine.docker.archives import Access
from glowplug.engine.docker.client import Client, connect
from glowplug.engine.docker.containers import (
    Command,
    Container,
    container_config,
    made_container,
    remove,
)
from glowplug.engine.docker.explanations import explain_exit
from glowplug.engine.docker.image import Image, owner_ids
from glowplug.engine.docker.owners import LABEL_OWNER, engine_time, is_left_over, labels, this_process
from glowplug.engine.docker.preflight import find_image, require_room
from glowplug.engine.launch import Launch
from glowplug.engine.log import tail
from glowplug.errors import EngineError, ModelRunError

# nobody, on every Linux distribution: a user who owns nothing.
OTHER_UID = 65534
_PREFIX = "glowplug-"
_POLL_S = 0.2
_REFRESH_S = 2.0
_TERMINATION_S = 5
# Exit statuses that a container's init makes of signals.
_SIGNALLED = range(129, 129 + 64)


class DockerEngine:
    """An image and an engine to run it on.

    Attributes:
        image: what the engine says about the image.
        notes: what a user should know about it.
    """

    def __init__(self, client: Client, image: Image, spec: ImageSpec, folder: Path) -> None:
        self.image = image
        self.notes = _notes(image, spec)
        self._client = client
        self._spec = spec
        self._folder = folder

    def workspace(self, here: Path) -> Workspace:
        """Name a folder that no image has, below the root, which every image has."""
        return Workspace(here, PurePosixPath(f"/{_PREFIX}{uuid.uuid4().hex[:12]}"))

    def run(self, launch: Launch, on_tick: Callable[[float], None]) -> int:
        """Run a command to its end and return its exit status (negative: the signal that killed it).

        Raises:
            EngineError: the engine refuses, or the command is not in the image.
            ModelRunError: it needed more memory than there is, or more time than ``timeout_s``.
        """
        command = Command(
            tuple(launch.argv),
            launch.env,
            labels(this_process(), launch.timeout_s),
            launch.cwd,
            f"{OTHER_UID}:{OTHER_UID}" if launch.as_other_user else None,
        )
        config = container_config(self.image, self._spec, self._folder, command)
        name = f"{_PREFIX}{uuid.uuid4().hex[:12]}"
        with made_container(self._client, self.image, name, config) as container:
            self._send(container, launch)
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

    def _send(self, container: Container, launch: Launch) -> None:
        """Put the workspace in: root's, but for what the command writes to, which is its user's."""
        uid, gid = (OTHER_UID, OTHER_UID) if launch.as_other_user else self._image_user(container)

        def access_to(path: Path) -> Access:
            executable = 0o111 if path.is_dir() else path.lstat().st_mode & 0o111
            if any(path.is_relative_to(folder) for folder in launch.writable):
                # For everyone, since an entrypoint may change to another user yet.
                return Access(uid, gid, 0o666 | executable)
            return Access(0, 0, 0o644 | executable)

        container.send(launch.workspace.here, launch.workspace.seen_at, access_to)

    def _image_user(self, container: Container) -> tuple[int, int]:
        user = self.image.user
        tables = (container.read("/etc/passwd"), container.read("/etc/group")) if user else ("", "")
        return owner_ids(user, *tables)


@contextlib.contextmanager
def docker_engine(
    spec: ImageSpec, folder: Path, environ: Mapping[str, str], on_progress: Callable[[str], None]
) -> Iterator[DockerEngine]:
    """Reach the engine, remove what killed builds left there, and make sure that the image is there and fits.

    Args:
        spec: the image and how its containers are made.
        folder: what relative paths in it are relative to.
        environ: says where the engine is (DOCKER_HOST, DOCKER_CONTEXT, DOCKER_TLS_VERIFY, DOCKER_CERT_PATH).
        on_progress: gets a few words now and then while the image is pulled.

    Raises:
        EngineError: no engine answers; the image is made for another architecture, or there is no room for it.
        NotFoundError, DeniedError, UnavailableError: the image cannot be pulled.
        ToolMissingError: docker-py is not installed.
    """
    with connect(environ) as client:
        sweep(client)
        image = find_image(client, spec, on_progress)
        require_room(client, image)
        yield DockerEngine(client, image, spec, folder)


def sweep(client: Client) -> None:
    """Remove the containers whose builders were killed.

    Raises:
        EngineError: the engine does not answer.
    """
    with client.asking("list its containers", ""):
        containers = client.api.containers(all=True, filters={"label": LABEL_OWNER})
        now = engine_time(client.api.info()["SystemTime"]) if containers else 0.0
    us = this_process()
    for container in containers:
        if is_left_over(container, us, now):
            remove(client, container["Id"])


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


def _notes(image: Image, spec: ImageSpec) -> tuple[str, ...]:
    if image.expects_gpu and spec.gpus is None:
        return (f"{image.reference} is made for NVIDIA GPUs, but run.docker.gpus asks for none",)
    return ()
