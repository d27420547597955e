"""A model of which the spec says nothing but its image: version, predictor, inputs and the way back come from that."""

from __future__ import annotations

from integration.docker.conftest import CogCache
from integration.docker.daemon import DockerService
from integration.e2e.commands import Shell


def test_a_cog_image_is_all_that_a_spec_needs(
    docker: DockerService, cog_cache: CogCache, shell: Shell
) -> None:
    image, build = cog_cache.image, cog_cache.done
    digest = docker.api.inspect_image(image)["RepoDigests"][0].partition("@")[2]
    version = f"sha256-{digest.removeprefix('sha256:')[:16]}"
    assert build.json["reference"].startswith(f"{cog_cache.repository}:{version}-cpu-")
    assert build.json["digest"] in build.stderr.partition("is linked to")[2]
    proof = build.json["proof"]
    warm = proof["warm"]["work"]
    assert (warm["builds"], warm["fx_misses"], warm["aot_misses"], proof["shortfalls"]) == (0, 0, 0, [])
    assert proof["conditions"]["user"] == "other user (65534)"
    # The image's own reference leads to the cache.
    inspected = shell.glowplug("inspect", image, "--json").json["artifacts"]
    assert [artifact["digest"] for artifact in inspected] == [build.json["digest"]]
    record = inspected[0]["record"]
    assert record["image"] == f"{image.rpartition(':')[0]}@{digest}"
    assert record["coverage"] == [{}]


def test_a_second_build_has_nothing_to_do(docker: DockerService, cog_cache: CogCache, shell: Shell) -> None:
    again = shell.glowplug("build", "-f", cog_cache.spec, "--json", env=shell.environ(**docker.environ))
    assert again.json["outcome"] == "present"
    assert "is linked to" not in again.stderr
    assert docker.containers() == []
