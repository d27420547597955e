"""How tests talk to Cog's own server."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from http import HTTPStatus
from pathlib import Path
from typing import Any

_START_TIMEOUT_S = 120


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
    """Ask Cog's server once it has a slot: it frees one a moment after it has answered, and says 409 until then."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"}
    )
    while True:
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return json.loads(reply.read() or "null")
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.CONFLICT:
                raise
            time.sleep(0.01)
