from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from glowplug.core.reference import RegistryRepository
from glowplug.errors import DeniedError
from glowplug.registry.credentials import Credential, find_credential

GHCR = RegistryRepository("ghcr.io", "acme/cache")
HUB = RegistryRepository("docker.io", "acme/cache")


def auth(user: str, password: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


def write(path: Path, config: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(config if isinstance(config, str) else json.dumps(config))
    return path


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"DOCKER_CONFIG": str(tmp_path)}


def with_config(environ: dict[str, str], config: Any) -> dict[str, str]:
    write(Path(environ["DOCKER_CONFIG"]) / "config.json", config)
    return environ


def helper(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = write(folder / f"docker-credential-{name}", f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_nothing_is_found_where_nothing_is() -> None:
    assert find_credential(GHCR, {}) is None
    assert find_credential(GHCR, {"HOME": "/nonexistent"}) is None


def test_every_place_in_its_order(tmp_path: Path) -> None:
    places = {
        "XDG_RUNTIME_DIR": (tmp_path / "xdg", "containers/auth.json"),
        "REGISTRY_AUTH_FILE": (tmp_path / "auth.json", ""),
        "HOME": (tmp_path / "home", ".docker/config.json"),
        "DOCKER_CONFIG": (tmp_path / "docker", "config.json"),
    }
    environ: dict[str, str] = {}
    for variable, (path, below) in places.items():
        write(path / below if below else path, {"auths": {"ghcr.io": auth(variable, "secret")}})
        environ[variable] = str(path)
        assert find_credential(GHCR, environ) == Credential(variable, "secret")
    environ |= {"GLOWPLUG_USERNAME": "env", "GLOWPLUG_PASSWORD": "p"}
    assert find_credential(GHCR, environ) == Credential("env", "p")


def test_a_file_without_the_host_leaves_it_to_the_next(tmp_path: Path, environ: dict[str, str]) -> None:
    with_config(environ, {"auths": {"quay.io": auth("other", "x"), "ghcr.io": {}}})
    environ["REGISTRY_AUTH_FILE"] = str(write(tmp_path / "a.json", {"auths": {"ghcr.io": auth("me", "y")}}))
    assert find_credential(GHCR, environ) == Credential("me", "y")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (auth("me", "a:b"), Credential("me", "a:b")),
        ({"username": "me", "password": "p"}, Credential("me", "p")),
        (auth("me", "") | {"identitytoken": "t"}, Credential("me", "", "t")),
    ],
)
def test_forms_of_an_entry(environ: dict[str, str], entry: dict[str, str], expected: Credential) -> None:
    assert find_credential(GHCR, with_config(environ, {"auths": {"ghcr.io": entry}})) == expected


@pytest.mark.parametrize("key", ["https://index.docker.io/v1/", "docker.io", "registry-1.docker.io"])
def test_docker_hub_has_many_names(environ: dict[str, str], key: str) -> None:
    assert find_credential(HUB, with_config(environ, {"auths": {key: auth("me", "p")}})) is not None
    assert find_credential(GHCR, environ) is None


def test_the_narrowest_entry_wins(environ: dict[str, str]) -> None:
    auths = {"ghcr.io": auth("all", "p"), "ghcr.io/acme": auth("acme", "p"), "ghcr.io/acme/x": auth("x", "p")}
    assert find_credential(GHCR, with_config(environ, {"auths": auths})) == Credential("acme", "p")


def test_a_helper_is_asked_for_its_host(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    helper(
        tmp_path / "bin",
        "test",
        'read s; echo "{\\"Username\\":\\"$1\\",\\"Secret\\":\\"$s\\"}"',
        monkeypatch,
    )
    config = {"credHelpers": {"ghcr.io": "test"}, "auths": {"ghcr.io": auth("stored", "p")}}
    assert find_credential(GHCR, with_config(environ, config)) == Credential("get", "ghcr.io")
    assert find_credential(HUB, with_config(environ, {"credsStore": "test"})) == Credential(
        "get", "https://index.docker.io/v1/"
    )


def test_a_helper_may_hold_an_identity_token(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    helper(tmp_path / "bin", "test", 'echo \'{"Username":"<token>","Secret":"t"}\'', monkeypatch)
    found = find_credential(GHCR, with_config(environ, {"credsStore": "test"}))
    assert found == Credential("", "", "t")


def test_a_helper_that_knows_nothing(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    helper(tmp_path / "bin", "test", "echo credentials not found in native keychain; exit 1", monkeypatch)
    assert find_credential(GHCR, with_config(environ, {"credHelpers": {"ghcr.io": "test"}})) is None


@pytest.mark.parametrize("script", ["exit 1", "echo no json", "echo '[]'", "echo '{}'", "echo null"])
def test_a_helper_that_is_named_for_the_host_must_work(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    helper(tmp_path / "bin", "test", script, monkeypatch)
    with pytest.raises(DeniedError, match="docker-credential-test"):
        find_credential(GHCR, with_config(environ, {"credHelpers": {"ghcr.io": "test"}}))


def test_a_helper_that_hangs(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    helper(tmp_path / "bin", "test", "exec sleep 30", monkeypatch)
    monkeypatch.setattr("glowplug.registry.credentials.HELPER_TIMEOUT_S", 0.1)
    with pytest.raises(DeniedError, match="docker-credential-test"):
        find_credential(GHCR, with_config(environ, {"credHelpers": {"ghcr.io": "test"}}))


def test_a_missing_helper(environ: dict[str, str]) -> None:
    with pytest.raises(DeniedError, match="docker-credential-absent"):
        find_credential(GHCR, with_config(environ, {"credHelpers": {"ghcr.io": "absent"}}))
    # A desktop's store does not exist in a container, where public images are still to be had.
    assert find_credential(GHCR, with_config(environ, {"credsStore": "absent"})) is None


@pytest.mark.parametrize(
    "content", ["{", "[]", "", '{"auths":{"ghcr.io":{"auth":"%"}}}', '{"auths":{"ghcr.io":{"auth":"/w=="}}}']
)
def test_a_damaged_file_is_named(environ: dict[str, str], content: str) -> None:
    with pytest.raises(DeniedError, match=r"config\.json is damaged"):
        find_credential(GHCR, with_config(environ, content))


@pytest.mark.parametrize("config", [{"auths": []}, {"auths": {"ghcr.io": "x"}}, {"credHelpers": "x"}])
def test_a_strange_file_holds_nothing(environ: dict[str, str], config: dict[str, Any]) -> None:
    assert find_credential(GHCR, with_config(environ, config)) is None


def test_a_secret_is_never_shown() -> None:
    credential = Credential("me", "hunter2", "tok3n")
    assert "hunter2" not in f"{credential!r}{credential}"
    assert "tok3n" not in f"{credential!r}{credential}"
