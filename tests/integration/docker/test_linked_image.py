"""A model of which the spec says nothing but its image: version, predictor, inputs and the way back come from that."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.docker.daemon import DockerService
from integration.e2e.commands import Shell
from integration.e2e.projects import write_spec
from integration.services import RegistryService


@pytest.fixture
def published(docker: DockerService, cog_image: str, registry: RegistryService) -> str:
    """The Cog image's name in a registry, to which it was pushed."""
    name = f"{registry.host}/linked/flux"
    docker.api.tag(cog_image, name, "v3")
    for event in docker.api.push(name, "v3", stream=True, decode=True):
        assert "error" not in event, event
    return f"{name}:v3"


def test_a_cog_image_is_all_that_a_spec_needs(
    docker: DockerService, published: str, registry: RegistryService, tmp_path: Path
) -> None:
    cache, folder, shell = registry.repository("linked/cache"), tmp_path / "model", Shell(tmp_path / "shell")
    folder.mkdir()
    write_spec(
        folder,
        {
            "model": {"name": "flux", "version": {"image": "digest"}},
            "run": {"image": published, "docker": {"network": "host"}},
            "artifact": str(cache),
        },
    )
    env = shell.environ(**docker.environ)
    build = shell.glowplug("build", "-f", folder / "glowplug.yaml", "--json", env=env)
    digest = docker.api.inspect_image(published)["RepoDigests"][0].partition("@")[2]
    version = f"sha256-{digest.removeprefix('sha256:')[:16]}"
    assert build.json["reference"].startswith(f"{cache}:{version}-cpu-")
    assert build.json["digest"] in build.stderr.partition("is linked to")[2]
    # The image's own reference leads to the cache.
    inspected = shell.glowplug("inspect", published, "--json").json["artifacts"]
    assert [artifact["digest"] for artifact in inspected] == [build.json["digest"]]
    record = inspected[0]["record"]
    assert record["image"] == f"{published.rpartition(':')[0]}@{digest}"
    assert record["coverage"] == [{}]
    # A second build has nothing to do, and nothing to link.
    again = shell.glowplug("build", "-f", folder / "glowplug.yaml", "--json", env=env)
    assert again.json["outcome"] == "present"
    assert "is linked to" not in again.stderr
    assert docker.containers() == []
