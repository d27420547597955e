"""Docker engines of the tests' own, with their data and sockets in temporary folders."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import docker

from integration.services import find_program

_START_TIMEOUT_S = 60.0
_POLL_S = 0.05

# Looks to the engine like the hook of the NVIDIA Container Toolkit: it succeeds, or fails with what `refusal` says.
_HOOK = """#!/bin/sh
if [ -e {refusal} ]; then
  while read -r line; do echo "$line" >&2; done < {refusal}
  exit 1
fi
"""


@dataclass(frozen=True)
class DockerService:
    """A running dockerd.

    Attributes:
        folder: socket, data and log.
        api: docker-py's low-level client for it.
    """

    folder: Path
    api: docker.APIClient

    @property
    def environ(self) -> dict[str, str]:
        """What tells a program to use it."""
        return {"DOCKER_HOST": f"unix://{self.folder}/socket"}

    @property
    def data(self) -> Path:
        """Where it keeps images."""
        return self.folder / "data"

    @property
    def gpu_refusal(self) -> Path:
        """While this file exists, starting a container with a GPU fails with what it says."""
        return self.folder / "gpu-refusal"

    @contextlib.contextmanager
    def full_disk(self) -> Iterator[None]:
        """Leave next to nothing free on a disk that was made with a ``size``."""
        disk = os.statvfs(self.data)
        used_bytes = (disk.f_blocks - disk.f_bfree) * disk.f_frsize
        self._resize(used_bytes + 64 * 1024)
        try:
            yield
        finally:
            self._resize(disk.f_blocks * disk.f_frsize)

    def _resize(self, size_bytes: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size_bytes}", self.data], check=True)

    def containers(self) -> list[str]:
        """Name every container there is, running or not."""
        return [container["Names"][0].lstrip("/") for container in self.api.containers(all=True)]

    def build(self, reference: str, dockerfile: str, files: Path | None = None) -> str:
        """Build an image and return its id; ``files`` is what COPY finds."""
        with tempfile.TemporaryDirectory() as context:
            if files is not None:
                shutil.copytree(files, context, dirs_exist_ok=True)
            Path(context, "Dockerfile").write_text(dockerfile)
            Path(context, "Dockerfile").chmod(0o755)  # tests copy it where a program should be
            for event in self.api.build(context, tag=reference, rm=True, decode=True, network_mode="host"):
                if "error" in event:
                    raise RuntimeError(event["error"])
        image_id: str = self.api.inspect_image(reference)["Id"]
        return image_id


@contextlib.contextmanager
def docker_service(*, with_gpu_hook: bool = False, size: str = "") -> Iterator[DockerService]:
    """Start an engine, which is gone afterwards with all that it made.

    Args:
        with_gpu_hook: whether it believes that it can hand out NVIDIA GPUs.
        size: of its disk, as mount(8) takes it; that of this machine's disk when empty.
    """
    # Not below pytest's folders: a socket's path may have 107 bytes.
    with tempfile.TemporaryDirectory(prefix="dockerd-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        data = folder / "data"
        data.mkdir()
        if size:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", data], check=True)
        path = [os.environ["PATH"], "/usr/sbin", "/sbin"]
        if with_gpu_hook:
            path.insert(0, str(_gpu_hook(folder)))
        try:
            with _dockerd(folder, os.pathsep.join(path)) as api:
                yield DockerService(folder, api)
        finally:
            _unmount_below(folder)


def _unmount_below(folder: Path) -> None:
    """Take away what dockerd left mounted: its data folder on itself, the network namespace of the host."""
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for place in reversed(mounted):
        if Path(place).is_relative_to(folder):
            subprocess.run(["umount", "--lazy", place], check=True)


def _gpu_hook(folder: Path) -> Path:
    programs = folder / "programs"
    programs.mkdir()
    hook = programs / "nvidia-container-runtime-hook"
    hook.write_text(_HOOK.format(refusal=folder / "gpu-refusal"))
    hook.chmod(0o755)
    return programs


@contextlib.contextmanager
def _dockerd(folder: Path, path: str) -> Iterator[docker.APIClient]:
    find_program("runc", package="docker.io")
    program = find_program("dockerd", package="docker.io")
    options = {
        "--bridge": "none",
        "--iptables": "false",
        "--exec-opt": "native.cgroupdriver=cgroupfs",
        "--host": f"unix://{folder}/socket",
        "--data-root": f"{folder}/data",
        "--exec-root": f"{folder}/exec",
        "--pidfile": f"{folder}/pid",
    }
    arguments = [f"{name}={value}" for name, value in options.items()]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, *arguments], stdout=output, stderr=output, env={**os.environ, "PATH": path}
        )
    try:
        give_up = time.monotonic() + _START_TIMEOUT_S
        while not _answers(folder / "socket"):
            if process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError(f"dockerd does not start:\n{log.read_text()[-4000:]}")
            time.sleep(_POLL_S)
        api = docker.APIClient(f"unix://{folder}/socket", timeout=300)
        yield api
        for container in api.containers(all=True):
            api.remove_container(container["Id"], force=True, v=True)
        api.close()
    finally:
        process.terminate()
        process.wait(_START_TIMEOUT_S)


def _answers(socket: Path) -> bool:
    try:
        docker.APIClient(f"unix://{socket}", timeout=5).close()
    except docker.errors.DockerException:
        return False
    return True
