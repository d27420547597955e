"""Real services for the tests, on free loopback ports, stopped by whoever started them."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from glowplug.core.reference import RegistryRepository

_START_TIMEOUT_S = 30.0
_POLL_S = 0.05


@dataclass
class RegistryService:
    """Debian's docker-registry (distribution 2.8) with its data in ``folder``; it can be started again.

    Attributes:
        folder: configuration, log, and ``data``, which outlive a restart.
        user, password: the login it asks for; without a user it serves anyone.
        read_only: whether it refuses to store anything, from the next start on.
        host: ``127.0.0.1:PORT``, the same after a restart.
    """

    folder: Path
    user: str = ""
    password: str = ""
    read_only: bool = False
    host: str = ""
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def data(self) -> Path:
        """Where blobs lie: ``docker/registry/v2/blobs/sha256/aa/DIGEST/data``."""
        return self.folder / "data"

    def repository(self, name: str) -> RegistryRepository:
        """Name a repository in this registry."""
        return RegistryRepository(self.host, name)

    def blob(self, digest: str) -> Path:
        """The file that holds a blob or a manifest."""
        name = digest.removeprefix("sha256:")
        return self.data / "docker" / "registry" / "v2" / "blobs" / "sha256" / name[:2] / name / "data"

    def start(self) -> None:
        """Start and wait until it answers."""
        program = find_program("docker-registry", package="docker-registry")
        if not self.host:
            self.host = f"127.0.0.1:{free_port()}"
        config = self.folder / "config.yml"
        config.write_text(self._config())
        with (self.folder / "registry.log").open("ab") as log:
            self._process = subprocess.Popen([program, "serve", str(config)], stdout=log, stderr=log)
        self._await_answer(self._process)

    def stop(self) -> None:
        """Stop and wait for the end; the data stays."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(_START_TIMEOUT_S)
            self._process = None

    def _config(self) -> str:
        lines = [
            "version: 0.1",
            "log: {level: warn, accesslog: {disabled: true}}",
            "storage:",
            f"  filesystem: {{rootdirectory: {self.data}}}",
            "  delete: {enabled: true}",
            f"  maintenance: {{readonly: {{enabled: {str(self.read_only).lower()}}}}}",
            f"http: {{addr: {self.host}}}",
        ]
        if self.user:
            login = self.folder / "htpasswd"
            program = find_program("htpasswd", package="apache2-utils")
            login.write_bytes(
                subprocess.run(
                    [program, "-Bbn", self.user, self.password], check=True, capture_output=True
                ).stdout
            )
            lines.append(f"auth: {{htpasswd: {{realm: tests, path: {login}}}}}")
        return "\n".join(lines) + "\n"

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        give_up = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < give_up and process.poll() is None:
            try:
                with urllib.request.urlopen(f"http://{self.host}/v2/", timeout=1):
                    return
            except urllib.error.HTTPError:
                return  # it asks for a login
            except OSError:
                time.sleep(_POLL_S)
        self.stop()
        raise RuntimeError(f"docker-registry does not start:\n{(self.folder / 'registry.log').read_text()}")


def find_program(name: str, package: str) -> str:
    """Return the path of a program that the tests cannot do without."""
    path = shutil.which(name)
    if path is None:
        raise RuntimeError(f"these tests need {name}: apt-get install {package}")
    return path


def free_port() -> int:
    """Return a loopback port that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
