"""The whole way through a registry that asks for a login, and registries that refuse."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from integration.e2e.commands import Shell
from integration.e2e.projects import SQUARE, Project, write_project
from integration.services import RegistryService, free_port

# A model that sees the registry's password must not go unnoticed.
_SEES_NO_PASSWORD = f"""{SQUARE}
import os

assert not [name for name in os.environ if name.startswith("GLOWPLUG_PASS")]
"""


def test_build_fetch_inspect_and_run(
    private_registry: RegistryService, workspace: Path, shell: Shell
) -> None:
    repository = private_registry.repository("e2e/square")
    project = _project(workspace / "private", str(repository))
    login = {"GLOWPLUG_USERNAME": private_registry.user, "GLOWPLUG_PASSWORD": private_registry.password}
    done = shell.glowplug("build", "-f", project.spec, env=shell.environ(**login))
    reference, _, digest = done.stdout.strip().partition("@")
    assert reference.startswith(f"{repository}:v1-")
    assert project.imports == 3
    assert private_registry.blob(digest).is_file()
    assert private_registry.password not in done.stdout + done.stderr
    assert list((shell.folder / "tmp").iterdir()) == []

    env = shell.environ(DOCKER_CONFIG=str(_docker_config(shell.folder, private_registry)))
    place = shell.folder / "place"
    fetched = shell.glowplug("fetch", f"{repository}:v1", "--dest", place, "--json", env=env).json
    assert fetched["digest"] == digest
    assert json.loads((place / "record.json").read_bytes())["model"] == {"name": "tiny", "version": "v1"}
    (artifact,) = shell.glowplug("inspect", f"{repository}:v1", "--json", env=env).json["artifacts"]
    assert artifact["digest"] == digest
    assert artifact["record"] == json.loads((place / "record.json").read_bytes())
    run = ["run", f"{repository}:v1", "--strict", "--", "sh", "-c", 'ls "$TORCHINDUCTOR_CACHE_DIR"']
    assert "fxgraph" in shell.glowplug(*run, env=env).stdout.split()


def test_without_a_login_nothing_is_fetched(private_registry: RegistryService, shell: Shell) -> None:
    reference, place = f"{private_registry.repository('e2e/square')}:v1", shell.folder / "place"
    done = shell.glowplug("fetch", reference, "--dest", place, status=11)
    assert f"{private_registry.host} wants a user name and a password" in done.stderr
    assert not place.exists()


def test_a_wrong_password_is_refused_before_the_model_runs(
    private_registry: RegistryService, workspace: Path, shell: Shell
) -> None:
    repository = private_registry.repository("e2e/refused")
    project = _project(workspace / "refused", str(repository))
    env = shell.environ(GLOWPLUG_USERNAME=private_registry.user, GLOWPLUG_PASSWORD="a wrong one")
    done = shell.glowplug("build", "-f", project.spec, env=env, status=11)
    assert private_registry.host in done.stderr
    assert "a wrong one" not in done.stderr
    assert project.imports == 0


def test_a_dead_registry_is_noticed_before_the_model_runs(workspace: Path, shell: Shell) -> None:
    host = f"127.0.0.1:{free_port()}"
    project = _project(workspace / "dead", f"{host}/e2e/dead")
    done = shell.glowplug("build", "-f", project.spec, "--timeout", "5", status=10)
    assert host in done.stderr
    assert project.imports == 0


def test_a_registry_that_takes_no_push_is_noticed_before_the_model_runs(
    workspace: Path, shell: Shell, tmp_path: Path
) -> None:
    registry = RegistryService(tmp_path, read_only=True)
    registry.start()
    try:
        project = _project(workspace / "read-only", str(registry.repository("e2e/read-only")))
        done = shell.glowplug("build", "-f", project.spec, status=11)
    finally:
        registry.stop()
    assert registry.host in done.stderr
    assert project.imports == 0


def _project(folder: Path, artifact: str) -> Project:
    return write_project(folder, _SEES_NO_PASSWORD, artifact=artifact)


def _docker_config(folder: Path, registry: RegistryService) -> Path:
    config = folder / "docker"
    config.mkdir()
    login = base64.b64encode(f"{registry.user}:{registry.password}".encode()).decode()
    (config / "config.json").write_text(json.dumps({"auths": {registry.host: {"auth": login}}}))
    return config
