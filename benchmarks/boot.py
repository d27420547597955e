"""How fast a container gets its cache, against what people use instead. ``make bench-boot`` runs it; README.md explains it.

Prints a table and writes every figure to build/bench-boot.json. No figure makes it fail.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import peers
from bench import BUILD, WORK, Bench, network, registry, script, tmpfs
from measure import run
from node import changes, many_fetchers, start_cost
from peers import Published
from targets import FETCH, Bound, Value, table, to_json

RATE_BYTES_PER_S, LATENCY_S = 50e6, 0.030
# Room for two copies of the mixed data set, and for three of the large one.
TMPFS_BYTES, LARGE_TMPFS_BYTES = 1_500_000_000, 10_000_000_000


def whole_fetch(bench: Bench, artifact: Published, one_layer: Published) -> None:
    """Measure a fetch against other tools, and against copying what came out."""
    for where, folder in (("tmpfs", bench.tmpfs), ("disk", WORK / "disk")):
        result, out = folder / "result", folder / "out"
        run(peers.fetch(artifact.reference, result))
        cases = {
            FETCH: peers.fetch(artifact.reference, out, artifact.files),
            "oras-py pull": peers.oras_pull(artifact, out),
            "curl to tar xz": peers.curl_tar(artifact, out),
            "curl to tar xz of one layer": peers.curl_tar(one_layer, out),
            "skopeo copy + tar": peers.skopeo_tar(artifact, out),
            "cp -r": peers.copy(result, out, artifact.files),
        }
        bench.measure(where, cases)
        shutil.rmtree(result)


def slow_network(bench: Bench, artifact: Published) -> None:
    """Measure a fetch against the time that the network needs by itself."""
    with network(bench.registry.host, RATE_BYTES_PER_S, LATENCY_S) as slow:
        far = replace(artifact, host=slow.host)
        cases = {
            FETCH: peers.fetch(far.reference, bench.tmpfs / "out", far.files),
            "8 curls to /dev/null": peers.parallel_curls(far),
        }
        bench.measure("throttled", cases)


def small_files(bench: Bench, root: Path) -> None:
    """Measure unpacking where every file costs more than its bytes."""
    packed, out = WORK / "packed", bench.tmpfs / "out"
    script("artifact.py", "pack", root, packed)
    blobs = sorted(packed.glob("*.tar.gz"))
    run(peers.unpack_blobs(blobs, out))
    files = peers.count(out)
    shutil.rmtree(out)
    cases = {
        "glowplug unpack": peers.unpack_blobs(blobs, out, files),
        "tarfile with the data filter": peers.tarfile_blobs(blobs, out, files),
    }
    bench.measure("small files", cases)


def packing(bench: Bench, root: Path) -> None:
    """Measure packing, twice into other folders: equal content has to give equal layers."""
    made, size_bytes, cpu_s = [], 0, []
    for name in ("first", "second"):
        started = os.times()
        packed = json.loads(script("artifact.py", "pack", root, WORK / name))
        ended = os.times()
        cpu_s.append(
            ended.children_user + ended.children_system - started.children_user - started.children_system
        )
        made.append(packed["layers"])
        size_bytes = packed["size_bytes"]
    zlib_bytes = int(script("artifact.py", "zlib", WORK / "first"))
    for name in ("first", "second"):
        shutil.rmtree(WORK / name)
    bench.values += [
        Value("pack, 300 MB", min(cpu_s), "CPU s", Bound(7.0)),
        Value("packed size", size_bytes / 1e6, "MB", Bound(77.0)),
        Value("packed size / that of zlib -6", size_bytes / zlib_bytes, "", None),
        Value("equal layers from two packs", float(made[0] == made[1]), "", Bound(1.0, at_least=True)),
    ]


def large_cache(bench: Bench, root: Path) -> None:
    """Measure 3 GB in 60,000 files: memory must not follow the size."""
    artifact = bench.publish(root, "large:v1")
    result, archive, out = bench.tmpfs / "result", bench.tmpfs / "result.tar", bench.tmpfs / "out"
    run(peers.fetch(artifact.reference, result))
    subprocess.run(["tar", "cf", archive, "-C", result, "."], check=True)
    shutil.rmtree(result)
    cases = {
        FETCH: peers.fetch(artifact.reference, out, artifact.files),
        "curl to tar xz": peers.curl_tar(artifact, out),
        "tar x": peers.tar_x(archive, out, artifact.files),
    }
    bench.measure("large", cases)
    archive.unlink()


def memory(bench: Bench) -> None:
    """Report the largest resident set over all fetches."""
    for name, case in bench.cases.items():
        if name.startswith(FETCH):
            peak_mb = max(sample.peak_rss_bytes for sample in case.samples) / 1e6
            bench.values.append(Value(f"peak memory of {name}", peak_mb, "MB", Bound(150)))


def machine() -> dict[str, Any]:
    """Return what the figures depend on besides the code."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    packages = ("urllib3", "isal", "deflate", "click", "oras", "torch", "triton")
    return {
        "cpu": model[1] if model else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load_before": os.getloadavg()[0],
        "kernel": platform.release(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each case (default: 3)")
    parser.add_argument("--large", action="store_true", help="also the cache of 3 GB; needs 16 GB of memory")
    options = parser.parse_args()
    report: dict[str, Any] = {"machine": machine()}
    # Installed packages come compiled.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # A peer that sends loopback through a proxy would measure the proxy.
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    names = ("mixed", "small", *(["large"] if options.large else []))
    # In a process of its own: a child's peak memory is never less than that of who starts it (getrusage(2)).
    data = {
        name: Path(folder) for name, folder in json.loads(script("dataset.py", WORK / "data", *names)).items()
    }
    for folder in ("disk", "publish", "packed"):
        shutil.rmtree(WORK / folder, ignore_errors=True)
    with tmpfs(LARGE_TMPFS_BYTES if options.large else TMPFS_BYTES) as memory_folder, registry() as service:
        bench = Bench(service, memory_folder, options.rounds)
        artifact = bench.publish(data["mixed"], "mixed:v1")
        whole_fetch(bench, artifact, bench.publish(data["mixed"], "one-layer:v1", "--one-layer"))
        slow_network(bench, artifact)
        small_files(bench, data["small"])
        start_cost(bench, data["mixed"])
        many_fetchers(bench, data["mixed"])
        changes(bench, data["mixed"], artifact)
        packing(bench, data["mixed"])
        if options.large:
            large_cache(bench, data["large"])
        memory(bench)
    print(f"\n{table(bench.cases, bench.values)}")
    (BUILD / "bench-boot.json").write_text(json.dumps(report | to_json(bench.cases, bench.values), indent=2))


if __name__ == "__main__":
    main()
