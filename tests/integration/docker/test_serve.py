"""A container of a Cog image that starts from its cache, and gives back what it compiled when it is stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from glowplug.build.zipapp import write_zipapp
from integration.cog_server import call
from integration.docker.conftest import CogCache
from integration.docker.daemon import DockerService
from integration.e2e.commands import PROBE, Probe, Shell
from integration.services import free_port

SERVED = "glowplug-test/served:1"
_START_TIMEOUT_S = 120.0

# What docs/how-to/docker.md tells users to write. The entrypoint, tini, stays.
DOCKERFILE = """FROM {image}
COPY glowplug.pyz /usr/local/bin/glowplug
CMD ["python","/usr/local/bin/glowplug","run","--update","direct","--","python","-m","cog.server.http"]
"""


class Server:
    """A container that serves.

    Attributes:
        port: where.
        probe: counts what is compiled in it.
    """

    def __init__(self, docker: DockerService, port: int, probe: Probe) -> None:
        self.port, self.probe = port, probe
        self._api = docker.api
        self._name = f"served-{port}"

    def start(self, cache: CogCache, probe_folder: Path) -> None:
        """Start it and wait until it is ready."""
        host = self._api.create_host_config(
            network_mode="host", binds=[f"{PROBE}:/probe:ro", f"{probe_folder}:/events"]
        )
        environment = {
            "PORT": str(self.port),
            "PYTHONPATH": "/probe",
            "GLOWPLUG_PROBE_DIR": "/events",
            # The image's own reference: the link leads from there to the cache.
            "GLOWPLUG_REF": cache.image,
            "GLOWPLUG_READY": f"http://127.0.0.1:{self.port}/health-check",
        }
        self._api.create_container(SERVED, host_config=host, environment=environment, name=self._name)
        self._api.start(self._name)
        give_up = time.monotonic() + _START_TIMEOUT_S
        while not self._is_ready():
            assert self._api.inspect_container(self._name)["State"]["Running"], self.log()
            assert time.monotonic() < give_up, self.log()
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        try:
            status = call(self.port, "/health-check")["status"]
        except OSError:
            return False
        assert status in ("STARTING", "READY"), self.log()
        return bool(status == "READY")

    def predict(self, size: int) -> float:
        """Ask for one prediction."""
        answer = call(self.port, "/predictions", {"input": {"size": size}})
        assert answer["status"] == "succeeded", answer
        output: float = answer["output"]
        return output

    def stop(self, timeout_s: int) -> int:
        """Do what ``docker stop -t`` does, and return the exit status."""
        self._api.stop(self._name, timeout=timeout_s)
        status: int = self._api.inspect_container(self._name)["State"]["ExitCode"]
        return status

    def log(self) -> str:
        """Return what it printed."""
        text: str = self._api.logs(self._name).decode()
        return text

    def remove(self) -> None:
        """Take it away."""
        self._api.remove_container(self._name, force=True, v=True)


@pytest.fixture(scope="module", autouse=True)
def served(docker: DockerService, cog_cache: CogCache, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Put glowplug into the image."""
    folder = tmp_path_factory.mktemp("served")
    write_zipapp(folder / "glowplug.pyz")
    docker.build(SERVED, DOCKERFILE.format(image=cog_cache.image), folder)


@contextmanager
def serving(docker: DockerService, cache: CogCache, folder: Path) -> Iterator[Server]:
    probe = Probe(folder)
    probe.environ()
    server = Server(docker, free_port(), probe)
    try:
        server.start(cache, folder)
        yield server
    finally:
        server.remove()


def updates(cache: CogCache, shell: Shell) -> list[dict[str, int]]:
    (artifact,) = shell.glowplug("inspect", cache.done.json["reference"], "--json").json["artifacts"]
    found: list[dict[str, int]] = artifact["record"]["updates"]
    return found


def test_what_a_container_compiles_the_next_one_finds(
    docker: DockerService, cog_cache: CogCache, shell: Shell, tmp_path: Path
) -> None:
    with serving(docker, cog_cache, tmp_path / "hurried") as server:
        expected = server.predict(8), server.predict(4)
        server.stop(2)
        work = server.probe.work()
        assert (work.fx_hits, work.fx_misses) == (1, 1)  # the captured size, and the other
    # Whether two seconds were enough or not: the tag leads to a whole artifact.
    reference, like_the_image = cog_cache.done.json["reference"], ("--pretend-target", "triton=")
    shell.glowplug("fetch", reference, "--dest", tmp_path / "whole", *like_the_image)

    with serving(docker, cog_cache, tmp_path / "patient") as server:
        assert (server.predict(8), server.predict(4)) == expected
        assert server.stop(30) == 0, server.log()
    assert [update["files"] > 0 for update in updates(cog_cache, shell)] == [True]

    with serving(docker, cog_cache, tmp_path / "next") as server:
        assert (server.predict(8), server.predict(4)) == expected
        work = server.probe.work()
        assert (work.total, work.fx_hits, work.aot_hits) == (0, 2, 2)
