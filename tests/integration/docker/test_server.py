"""A server that is captured in its own image: the image's command, asked over HTTP from inside its container."""

from __future__ import annotations

from pathlib import Path

from integration.docker.daemon import DockerService
from integration.e2e.commands import Shell
from integration.e2e.projects import write_spec
from integration.services import free_port


def test_cogs_server_is_a_workload(
    docker: DockerService, cog_image: str, shell: Shell, tmp_path: Path
) -> None:
    port = free_port()
    write_spec(
        tmp_path,
        {
            "run": {
                "image": cog_image,
                "docker": {"network": "host"},
                "command": "python -m cog.server.http",
                "env": {"PORT": str(port)},
                "ready": {"url": f"http://127.0.0.1:{port}/health-check", "json": {"status": "READY"}},
                "requests": [{"path": "/predictions", "json": {"input": {"size": 8}}}],
            }
        },
    )
    done = shell.glowplug(
        "build", "-f", tmp_path / "glowplug.yaml", "--json", env=shell.environ(**docker.environ)
    )
    proof = done.json["proof"]
    cold, warm = proof["cold"]["work"], proof["warm"]["work"]
    assert (cold["fx_misses"], warm["fx_misses"], warm["aot_misses"], warm["builds"]) == (1, 0, 0, 0)
    assert warm["fx_hits"] == 1
    assert proof["shortfalls"] == []
    assert docker.containers() == []
