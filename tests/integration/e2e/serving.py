"""Cog's own server under `glowplug run`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
