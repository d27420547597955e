"""Where credentials come from: the environment, then what ``docker login`` and ``podman login`` left behind.

File formats: Docker's ``config.json`` (docs.docker.com, "docker login"), and containers-auth.json(5).
"""

from __future__ import annotations

import base64
import binascii
import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glowplug.core.reference import RegistryRepository
from glowplug.errors import DeniedError

HELPER_TIMEOUT_S = 20.0
LOGIN_VARIABLES = ("GLOWPLUG_USERNAME", "GLOWPLUG_PASSWORD")

_HUB_HOSTS = ("docker.io", "index.docker.io", "registry-1.docker.io")
_HUB_KEY = "https://index.docker.io/v1/"
# What a credential helper says as user name when the secret is an identity token (docker-credential-helpers).
_TOKEN_USER = "<token>"  # noqa: S105


@dataclass(frozen=True, repr=False)
class Credential:
    """A user name and password, or an identity token (an OAuth2 refresh token). Never printed."""

    username: str
    password: str = ""
    identity_token: str = ""

    def __repr__(self) -> str:
        return f"Credential({self.username!r}, ...)"


def find_credential(
    repository: RegistryRepository, environ: Mapping[str, str], *, login_variables: bool = True
) -> Credential | None:
    """Return the credential for a repository, ``None`` when there is none: many registries serve anyone.

    Args:
        repository: for which one.
        environ: the login that it may hold, and where the files are.
        login_variables: whether that login is meant for this repository.

    Raises:
        DeniedError: a file is damaged, or the helper that a file names for this host does not work.
    """
    username, password = (environ.get(name, "") for name in LOGIN_VARIABLES)
    if login_variables and username and password:
        return Credential(username, password)
    for path in _files(environ):
        config = _read(path)
        if config is not None and (found := _in_config(config, repository, path)) is not None:
            return found
    return None


def _files(environ: Mapping[str, str]) -> Iterator[Path]:
    if folder := environ.get("DOCKER_CONFIG"):
        yield Path(folder, "config.json")
    if home := environ.get("HOME"):
        yield Path(home, ".docker", "config.json")
    if file := environ.get("REGISTRY_AUTH_FILE"):
        yield Path(file)
    if folder := environ.get("XDG_RUNTIME_DIR"):
        yield Path(folder, "containers", "auth.json")


def _read(path: Path) -> dict[str, Any] | None:
    try:
        raw = path.read_bytes()
    except OSError:  # absent, or another user's: either way it holds nothing for us
        return None
    try:
        config = json.loads(raw)
    except ValueError:
        config = None
    if not isinstance(config, dict):
        raise DeniedError(f"{path} is damaged: it holds no JSON object", hint="log in again")
    return config


def _in_config(config: Mapping[str, Any], repository: RegistryRepository, path: Path) -> Credential | None:
    """Look in one file: a helper for this host, a stored entry, then the helper for all hosts."""
    keys = _keys(repository)
    server = _HUB_KEY if repository.host in _HUB_HOSTS else repository.host
    helper = _lookup(config.get("credHelpers"), keys)
    if isinstance(helper, str) and helper:
        return _ask_helper(helper, server, path)
    entry = _lookup(config.get("auths"), keys)
    if isinstance(entry, dict) and (credential := _from_entry(entry, path)) is not None:
        return credential
    store = config.get("credsStore")
    if isinstance(store, str) and store:
        try:
            return _ask_helper(store, server, path)
        except (
            DeniedError
        ):  # a desktop's config in a container names a store that is not there; others may know
            return None
    return None


def _keys(repository: RegistryRepository) -> list[str]:
    """Return the keys under which an entry may stand, the narrowest first (podman allows repositories)."""
    hosts = _HUB_HOSTS if repository.host in _HUB_HOSTS else (repository.host,)
    parts = repository.name.split("/")
    return [f"{h}/{'/'.join(parts[:n])}" for n in range(len(parts), 0, -1) for h in hosts] + list(hosts)


def _lookup(table: Any, keys: list[str]) -> Any:
    """Find the first key; ``https://host/v1/`` means ``host``, as docker writes it for its Hub."""
    if not isinstance(table, dict):
        return None
    plain = {_bare(name): value for name, value in table.items()}
    return next((plain[key] for key in keys if key in plain), None)


def _bare(key: str) -> str:
    key = key.partition("://")[2] or key
    return key.rstrip("/").removesuffix("/v1").removesuffix("/v2")


def _from_entry(entry: Mapping[str, Any], path: Path) -> Credential | None:
    username, password = str(entry.get("username") or ""), str(entry.get("password") or "")
    if entry.get("auth"):
        try:
            username, _, password = (
                base64.b64decode(str(entry["auth"]), validate=True).decode().partition(":")
            )
        except (binascii.Error, UnicodeDecodeError) as error:
            raise DeniedError(
                f"{path} is damaged: an 'auth' entry cannot be decoded", hint="log in again"
            ) from error
    identity_token = str(entry.get("identitytoken") or "")
    if not identity_token and not password:
        return None
    return Credential(username, password.rstrip("\0"), identity_token)


def _ask_helper(helper: str, server: str, path: Path) -> Credential | None:
    """Run ``docker-credential-HELPER get``, which reads the server from stdin and answers in JSON."""
    program = f"docker-credential-{helper}"
    try:
        done = subprocess.run(
            [program, "get"],
            input=server.encode(),
            capture_output=True,
            timeout=HELPER_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0 and b"credentials not found" in done.stdout + done.stderr:
            return None
        answer = json.loads(done.stdout) if done.returncode == 0 else {}
        username, secret = str(answer["Username"]), str(answer["Secret"])
    except (OSError, subprocess.TimeoutExpired, ValueError, LookupError, TypeError) as error:
        raise DeniedError(
            f"{program}, which {path} names for {server}, gives no credentials",
            hint=f"try: echo {server} | {program} get",
        ) from error
    return Credential("", "", secret) if username == _TOKEN_USER else Credential(username, secret)
