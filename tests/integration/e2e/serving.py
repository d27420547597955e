"""Cog's own server under `glowplug run`, and how to talk to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_START_TIMEOUT_S = 120


@contextmanager
def serving(
    arguments: list[str], folder: Path, env: dict[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Run Cog's server in a folder under `glowplug run` with these arguments; kill it at the end, if it is still there."""
    command = [sys.executable, "-m", "glowplug", "run", *arguments, "--strict"]
    with log.open("wb") as out:
        server = subprocess.Popen(
            [*command, "--", "python", "-m", "cog.server.http"],
            cwd=folder,
            env=env,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        try:
            yield server
        finally:
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()


def await_ready(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    give_up = time.monotonic() + _START_TIMEOUT_S
    status = "not there"
    while status != "READY":
        assert server.poll() is None, log.read_text()
        assert time.monotonic() < give_up, log.read_text()
        assert status in ("not there", "STARTING", "BUSY"), log.read_text()
        time.sleep(0.1)
        try:
            status = call(port, "/health-check")["status"]
        except OSError:
            continue


def call(port: int, path: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)
