"""What starts on one node share, and what a changed cache costs to send."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import peers
from bench import WORK, Bench, network, script
from measure import Case, run
from peers import Published
from targets import Bound, Value

FETCHERS = 50
SHARED_BYTES = 10_000_000


def start_cost(bench: Bench, root: Path) -> None:
    """Measure what ``glowplug run`` adds to a start when nothing has to come over a network.

    From a layout folder, and from a node's store by digest, with an artifact of a few files.
    """
    few, layout, home, store = WORK / "few", WORK / "layout", bench.tmpfs / "home", bench.tmpfs / "store"
    shutil.copytree(next((root / "triton").iterdir()), few / "triton" / "A")
    script("artifact.py", "publish", few, WORK / "publish", f"oci:{layout}:few")
    shutil.copytree(layout / "blobs", store / "blobs")
    digest = json.loads((layout / "index.json").read_bytes())["manifests"][0]["digest"]

    def start(reference: str) -> Case:
        argv = (sys.executable, "-m", "glowplug", "run", reference, "--strict", "--", "true")
        environ = {
            "XDG_CACHE_HOME": str(home),
            "GLOWPLUG_PYTHON": sys.executable,
            "GLOWPLUG_STORE": str(store),
        }
        return Case(argv, environ=environ, after=lambda: shutil.rmtree(home))

    cases = {
        "glowplug run oci:LAYOUT -- true": start(f"oci:{layout}:few"),
        # Nobody listens there.
        "glowplug run REGISTRY@DIGEST -- true": start(f"127.0.0.1:1/few@{digest}"),
        "python -c pass": Case((sys.executable, "-c", "pass")),
    }
    bench.measure("start", cases, rounds=20)
    for folder in (few, layout, store, WORK / "publish"):
        shutil.rmtree(folder)
    layout_s, store_s, bare_s = (bench.cases[f"{name}, start"].median("cpu_s") for name in cases)
    bench.values += [
        Value("glowplug run over python -c pass", (layout_s - bare_s) * 1000, "CPU ms", Bound(100)),
        Value("the same from a warm store", (store_s - bare_s) * 1000, "CPU ms", Bound(100)),
    ]


def many_fetchers(bench: Bench, root: Path) -> None:
    """Measure containers that start at once on a node whose store is empty; and on one whose store is not."""
    artifact = bench.publish(_part(root, SHARED_BYTES), "shared:v1")
    store, out = bench.tmpfs / "store", bench.tmpfs / "out"

    def empty() -> None:
        shutil.rmtree(store, ignore_errors=True)

    def fetchers(number: int, host: str, before: Callable[[], None]) -> Case:
        command = [sys.executable, "-m", "glowplug", "fetch", f"{host}/{artifact.name}", "--dest"]
        line = f"seq {number} | xargs -P {number} -I@ {shlex.join(command)} {shlex.quote(str(out))}/@"
        environ = {"GLOWPLUG_STORE": str(store)}
        return Case(peers.shell([line]), before, peers.cleared(out, number * artifact.files), environ)

    host = bench.registry.host
    line = f"seq {FETCHERS} | xargs -P {FETCHERS} -I@ {shlex.quote(sys.executable)} -c pass @"
    cases = {
        "one fetch": fetchers(1, host, before=empty),
        f"{FETCHERS} fetchers": fetchers(FETCHERS, host, before=empty),
        f"{FETCHERS} fetchers again": fetchers(FETCHERS, host, before=lambda: None),
        f"{FETCHERS} Python starts": Case(peers.shell([line])),
    }
    bench.measure("one store", cases)
    with network(host) as seen:
        case = fetchers(FETCHERS, seen.host, before=empty)
        case.before()
        run(case)
        case.after()
    empty()
    downloads = max(count for path, count in seen.gets.items() if "/blobs/" in path)
    one_s, all_s, again_s, pythons_s = (bench.cases[f"{name}, one store"].median("wall_s") for name in cases)
    name = f"last of {FETCHERS} fetchers / (one fetch +"
    bench.values += [
        Value(f"downloads of a blob by {FETCHERS} fetchers", downloads, "", Bound(1)),
        Value(f"{name} {FETCHERS} Python starts)", all_s / (one_s + pythons_s), "", Bound(2.0)),
        Value(f"{name} {FETCHERS} from a warm store)", all_s / (one_s + again_s), "", None),
    ]


def changes(bench: Bench, root: Path, artifact: Published) -> None:
    """Measure what is sent after one file in a hundred was compiled anew: by an update, and by a build."""
    size_bytes = sum(layer.size_bytes for layer in artifact.layers)
    place, copy = bench.tmpfs / "place", WORK / "copy"
    run(peers.fetch(artifact.reference, place))
    subprocess.run(["cp", "-rl", root, copy], check=True)

    def sent_by(verb: str, folder: Path, tag: str) -> float:
        _compile_one_in_a_hundred(folder)
        with network(bench.registry.host) as seen:
            repository = f"{seen.host}/{artifact.name.partition(':')[0]}"
            script("artifact.py", verb, folder, WORK / "publish", f"{repository}:{tag}")
        shutil.rmtree(folder)
        return seen.sent_bytes / size_bytes * 100

    bench.values += [
        Value("sent by an update, 1 % changed", sent_by("update", place, "v1"), "%", Bound(1.0)),
        Value("sent by a build, 1 % changed", sent_by("publish", copy, "v2"), "%", None),
    ]


def _part(root: Path, size_bytes: int) -> Path:
    """Copy as much of a data set, of every kind, as makes a small model's cache."""
    part = WORK / "part"
    shutil.rmtree(part, ignore_errors=True)
    for kind in sorted(root.iterdir()):
        left = size_bytes // 2
        for path in sorted(path for path in kind.rglob("*") if path.is_file()):
            if left <= 0:
                break
            copy = part / path.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)
            left -= path.stat().st_size
    return part


def _compile_one_in_a_hundred(root: Path) -> None:
    """Add what compiling one file in a hundred anew leaves: other content under another name. Of every type and size."""
    files = [path for kind in ("inductor", "triton") for path in (root / kind).rglob("*")]
    stored = [path for path in files if path.is_file() and not path.is_symlink()]
    for path in sorted(stored, key=lambda path: (path.suffix, path.stat().st_size, path))[50::100]:
        path.with_name(f"changed-{path.name}").write_bytes(b"changed" + path.read_bytes()[7:])
