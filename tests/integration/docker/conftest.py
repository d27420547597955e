"""A real Docker engine and real images, made once; every test removes its containers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from glowplug.core.reference import RegistryRepository
from integration.docker.daemon import DockerService, docker_service
from integration.docker.images import APP, COG, TORCH, add_app_image, add_cog_image
from integration.docker.model_image import import_model_image
from integration.docker.runs import Runs
from integration.e2e.commands import Done, Shell
from integration.e2e.projects import write_spec
from integration.services import RegistryService


@dataclass(frozen=True)
class CogCache:
    """What a build made of an image.

    Attributes:
        image: its reference in a registry.
        repository: where the cache is.
        spec: what it was built from.
        done: the command that did it.
    """

    image: str
    repository: RegistryRepository
    spec: Path
    done: Done


@pytest.fixture(scope="session")
def docker() -> Iterator[DockerService]:
    """An engine that believes that it can hand out GPUs, with the image of a torch model."""
    if os.geteuid() != 0:
        raise RuntimeError("these tests start a Docker engine of their own, which takes root")
    with docker_service(with_gpu_hook=True) as service:
        import_model_image(service.api, TORCH)
        yield service


@pytest.fixture(scope="session")
def plain_docker(docker) -> Iterator[DockerService]:
    """An engine that knows of no GPU, with a small disk and a small image, ``tiny:1``."""
    with docker_service(size="1100m") as service:
        service.build("tiny:1", "FROM scratch\nENV PATH=/bin\nCOPY Dockerfile /bin/python\n")
        yield service


@pytest.fixture(scope="session")
def cog_image(docker, tmp_path_factory) -> str:
    """Return the name of an image as ``cog build`` makes it."""
    add_cog_image(docker, tmp_path_factory.mktemp("cog") / "image")
    return COG


@pytest.fixture(scope="session")
def app_image(docker, tmp_path_factory) -> str:
    """Return the name of an image with a user and an entrypoint of its own."""
    add_app_image(docker, tmp_path_factory.mktemp("app") / "image")
    return APP


@pytest.fixture(scope="session")
def cog_cache(
    docker: DockerService, cog_image: str, registry: RegistryService, tmp_path_factory: pytest.TempPathFactory
) -> CogCache:
    """The cache of the Cog image, built inside it; the spec says nothing but the image."""
    name = f"{registry.host}/linked/flux"
    docker.api.tag(cog_image, name, "v3")
    for event in docker.api.push(name, "v3", stream=True, decode=True):
        assert "error" not in event, event
    repository, folder = registry.repository("linked/cache"), tmp_path_factory.mktemp("cog-cache")
    spec = {
        "model": {"name": "flux", "version": {"image": "digest"}},
        "run": {"image": f"{name}:v3", "docker": {"network": "host"}},
        "artifact": str(repository),
    }
    write_spec(folder, spec)
    shell = Shell(folder / "shell")
    done = shell.glowplug(
        "build", "-f", folder / "glowplug.yaml", "--json", env=shell.environ(**docker.environ)
    )
    assert docker.containers() == []
    return CogCache(f"{name}:v3", repository, folder / "glowplug.yaml", done)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A shell of this test's own."""
    return Shell(tmp_path / "shell")


@pytest.fixture
def runs(docker, tmp_path) -> Iterator[Runs]:
    """Run commands in containers, of which none is left in the end."""
    yield Runs(docker, tmp_path)
    assert docker.containers() == []
