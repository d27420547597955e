"""A real Docker engine and real images, made once; every test removes its containers."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from integration.docker.daemon import DockerService, docker_service
from integration.docker.images import APP, COG, TORCH, add_app_image, add_cog_image
from integration.docker.model_image import import_model_image
from integration.docker.runs import Runs


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


@pytest.fixture
def runs(docker, tmp_path) -> Iterator[Runs]:
    """Run commands in containers, of which none is left in the end."""
    yield Runs(docker, tmp_path)
    assert docker.containers() == []
