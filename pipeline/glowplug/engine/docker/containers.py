"""One container, from its making to its removal."""

from __future__ import annotations

import contextlib
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from glowplug.core.image import ModelImage
from glowplug.core.image_spec import ImageSpec
from glowplug.engine.docker.archives import Access, pack_folder, read_file, unpack_folder
from glowplug.engine.docker.client import Client
from glowplug.engine.docker.gpus import device_requests

_RUNNING = ("running", "paused", "restarting")
_LOG_END_TIMEOUT_S = 20.0
_RECONNECT_S = 0.5
_RESET_ENTRYPOINT = [""]
# Bits of Go's os.FileMode, in which the engine tells what a path is.
_FOLDER, _LINK, _EXECUTABLE = 1 << 31, 1 << 27, 0o111


@dataclass(frozen=True)
class Command:
    """What a container is made for.

    Attributes:
        argv: what takes the place of the image's own command.
        env: what is added to the image's own environment.
        labels: whose it is.
        workdir: working directory; ``None`` for the image's.
        user: as whom; ``None`` for the image's user.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    labels: Mapping[str, str]
    workdir: PurePosixPath | None = None
    user: str | None = None


@dataclass(frozen=True)
class State:
    """What became of a container.

    Attributes:
        running: whether it still runs.
        exit_code: 0 to 255 once it does not.
        out_of_memory: whether the kernel killed a process in it for want of memory.
    """

    running: bool
    exit_code: int
    out_of_memory: bool


def container_config(image: ModelImage, spec: ImageSpec, folder: Path, command: Command) -> dict[str, Any]:
    """Return the body of the request that makes a container (Docker Engine API, ContainerCreate).

    Args:
        image: the image, which is named by its digest: a tag may move between two containers.
        spec: what the user wants.
        folder: what relative paths in the spec are relative to.
        command: what runs in it.
    """
    effective = image if spec.entrypoint is None else replace(image, entrypoint=spec.entrypoint)
    host: dict[str, Any] = {
        "Init": not effective.has_init if spec.init is None else spec.init,
        "Mounts": [
            {
                "Type": "bind" if volume.is_path else "volume",
                "Source": str((folder / volume.source).resolve()) if volume.is_path else volume.source,
                "Target": volume.target,
                "ReadOnly": volume.read_only,
            }
            for volume in spec.volumes
        ],
        "DeviceRequests": device_requests(spec.gpus, image.env),
        # Its log can be read, whatever the engine's default driver does with logs.
        "LogConfig": {"Type": "json-file"},
    }
    if spec.network is not None:
        host["NetworkMode"] = spec.network
    if spec.shm_size_bytes is not None:
        host["ShmSize"] = spec.shm_size_bytes
    config: dict[str, Any] = {
        "Image": image.id,
        "Cmd": list(command.argv),
        "Env": [f"{name}={value}" for name, value in command.env.items()],
        "Labels": dict(command.labels),
        "HostConfig": host,
    }
    if spec.entrypoint is not None:
        config["Entrypoint"] = list(spec.entrypoint) or _RESET_ENTRYPOINT
    if command.workdir is not None:
        config["WorkingDir"] = str(command.workdir)
    if command.user is not None:
        config["User"] = command.user
    return config


@contextlib.contextmanager
def made_container(client: Client, image: ModelImage, config: Mapping[str, Any]) -> Iterator[Container]:
    """Make a container that is gone afterwards, however the body ends.

    Raises:
        EngineError: the engine refuses.
    """
    name = f"glowplug-{uuid.uuid4().hex[:12]}"
    try:
        with client.asking("make a container", image.reference):
            client.api.create_container_from_config(config, name)
        yield Container(client, image, name)
    finally:
        # By name, which is known even when the request was interrupted.
        client.remove_container(name)


class Container:
    """A container that exists."""

    def __init__(self, client: Client, image: ModelImage, name: str) -> None:
        self._client = client
        self._api = client.api
        self._image = image
        self._name = name

    def has_program(self, path: PurePosixPath) -> bool:
        """Return whether there is an executable file at an absolute path, or a link, which is not followed."""
        import docker.errors  # noqa: PLC0415

        with self._client.asking(f"look for {path} in a container", self._image.reference):
            try:
                chunks, status = self._api.get_archive(self._name, str(path))
            except docker.errors.NotFound:
                return False
            for _ in chunks:
                pass  # the connection is free for others once all was read
        mode = (status or {}).get("mode", 0)
        return bool(mode & _LINK) or (not mode & _FOLDER and bool(mode & _EXECUTABLE))

    def read(self, path: str) -> str:
        """Return the text of a small file, ``""`` when there is none."""
        import docker.errors  # noqa: PLC0415

        with self._client.asking(f"read {path} of a container", self._image.reference):
            try:
                chunks, _ = self._api.get_archive(self._name, path)
            except docker.errors.NotFound:
                return ""
            return read_file(chunks)

    def send(self, folder: Path, seen_at: PurePosixPath, access_to: Callable[[Path], Access]) -> None:
        """Copy a folder and all in it to an absolute path."""
        with self._client.asking("copy files into a container", self._image.reference):
            data = pack_folder(folder, seen_at.relative_to("/"), access_to)
            self._api.put_archive(self._name, "/", data)

    def fetch(self, seen_at: PurePosixPath, folder: Path) -> None:
        """Replace a folder here by the one in the container; one that is gone there is empty here.

        Raises:
            ModelRunError: it holds what no cache would.
            EngineError: the engine refuses, or breaks off.
        """
        import docker.errors  # noqa: PLC0415

        incoming = folder.with_name(f".{folder.name}.incoming")
        try:
            with self._client.asking("copy files out of a container", self._image.reference):
                try:
                    chunks, _ = self._api.get_archive(self._name, str(seen_at))
                    unpack_folder(chunks, incoming)
                except docker.errors.NotFound:
                    incoming.mkdir()
            shutil.rmtree(folder)
            incoming.rename(folder)
        finally:
            shutil.rmtree(incoming, ignore_errors=True)

    def start(self) -> None:
        """Start its command."""
        with self._client.asking("start a container", self._image.reference):
            self._api.start(self._name)

    def stop(self, grace_s: int) -> None:
        """Ask its command to end, and kill it ``grace_s`` seconds later."""
        with self._client.asking("stop a container", self._image.reference):
            self._api.stop(self._name, timeout=grace_s)

    def state(self) -> State:
        """Look how it is."""
        with self._client.asking("look at a container", self._image.reference):
            state = self._api.inspect_container(self._name)["State"]
        return State(state["Status"] in _RUNNING, state["ExitCode"], bool(state.get("OOMKilled")))

    @contextlib.contextmanager
    def logged_to(self, file: Path) -> Iterator[None]:
        """Copy to ``file`` what it prints while the body runs, which ends when the container has."""
        ended = threading.Event()
        copier = threading.Thread(target=self._copy_log, args=(file, ended), daemon=True)
        copier.start()
        try:
            yield
            copier.join(_LOG_END_TIMEOUT_S)
        finally:
            ended.set()

    def _copy_log(self, file: Path, ended: threading.Event) -> None:
        import docker.errors  # noqa: PLC0415
        import requests  # noqa: PLC0415
        import urllib3  # noqa: PLC0415

        while not ended.is_set():
            try:
                # The engine tells the whole log each time, so a broken connection costs nothing.
                with file.open("wb", buffering=0) as log:
                    for chunk in self._api.logs(self._name, stream=True, follow=True):
                        log.write(chunk)
            except (requests.RequestException, urllib3.exceptions.HTTPError):
                ended.wait(_RECONNECT_S)
            except docker.errors.APIError:
                return  # it is gone
            else:
                return
