"""A run of the benchmarks: its registry, its folders, its network, and what was measured so far."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import peers
from measure import Case, Measured, alternate, run
from peers import Published
from targets import Value

from glowplug.boot.place import is_noexec
from glowplug.core.oci import parse_manifest
from glowplug.core.reference import parse_reference
from glowplug.registry.source import open_source
from integration.services import RegistryService

HERE = Path(__file__).parent
BUILD = HERE.parent / "build"
WORK = BUILD / "bench"


class Bench:
    """One run: a registry, folders to write to, and what was measured so far."""

    def __init__(self, registry: RegistryService, tmpfs: Path, rounds: int) -> None:
        self.registry, self.tmpfs, self.rounds = registry, tmpfs, rounds
        self.cases: dict[str, Measured] = {}
        self.values: list[Value] = []

    def measure(self, where: str, cases: dict[str, Case], rounds: int | None = None) -> None:
        """Measure cases against each other and keep them as ``case, where``."""
        print(f"  {where}", flush=True)
        named = {f"{name}, {where}": case for name, case in cases.items()}
        self.cases |= alternate(named, rounds or self.rounds)

    def publish(self, root: Path, name: str, *flags: str) -> Published:
        """Pack and push a data set, and fetch it once to see what is in it."""
        reference = f"{self.registry.host}/{name}"
        script("artifact.py", "publish", root, WORK / "publish", reference, *flags)
        shutil.rmtree(WORK / "publish")
        parsed = parse_reference(reference)
        with open_source(parsed.repository) as source:
            layers = parse_manifest(source.resolve(parsed.selector)).layers
        out = self.tmpfs / "counted"
        run(peers.fetch(reference, out))
        files = peers.count(out)
        shutil.rmtree(out)
        return Published(self.registry.host, name, layers, files)


def script(name: str, *arguments: object) -> str:
    """Run a neighbouring script and return what it prints."""
    command = [sys.executable, str(HERE / name), *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


@dataclass
class Network:
    """The proxy before a registry: where it listens, and, once it is gone, what it saw.

    Attributes:
        host: ``127.0.0.1:PORT``.
        sent_bytes: what clients sent.
        gets: how often each path was asked for.
    """

    host: str
    sent_bytes: int = 0
    gets: Counter[str] = field(default_factory=Counter)


@contextmanager
def network(host: str, bytes_per_s: float = float("inf"), latency_s: float = 0.0) -> Iterator[Network]:
    """Put a network before a registry: a slow one, or one that only counts."""
    target_port = host.rpartition(":")[2]
    command = [sys.executable, str(HERE / "network.py"), target_port, str(bytes_per_s), str(latency_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
        assert proxy.stdout is not None
        try:
            seen = Network(f"127.0.0.1:{int(proxy.stdout.readline())}")
            yield seen
        finally:
            proxy.terminate()
        counted = json.loads(proxy.stdout.read())
        seen.sent_bytes, seen.gets = counted["sent_bytes"], Counter(counted["gets"])


@contextmanager
def tmpfs(size_bytes: int) -> Iterator[Path]:
    """Yield an empty folder in memory from which libraries may be loaded: in /dev/shm, or mounted."""
    shared = Path("/dev/shm")
    fits = shared.is_dir() and shutil.disk_usage(shared).free >= size_bytes and not is_noexec(shared)
    folder = Path(tempfile.mkdtemp(prefix="glowplug-bench-", dir=shared if fits else WORK))
    if not fits:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        if not fits:
            subprocess.run(["umount", folder], check=True)
        shutil.rmtree(folder)


@contextmanager
def registry() -> Iterator[RegistryService]:
    """Run a registry with nothing in it."""
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        service = RegistryService(Path(folder))
        service.start()
        try:
            yield service
        finally:
            service.stop()
