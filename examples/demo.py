"""Watch a real model boot cold, then warm from an artifact: ``make demo``.

Builds examples/flux into an OCI layout folder (no registry, no Docker), proves the cache, fetches it into an empty
place under ``glowplug run``, boots Cog's own server there, asks for one picture, and prints what it all took. The same
figures go to build/demo.json.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import glowplug
from glowplug.build.model_run import read_compile_work
from glowplug.report.table import table

ROOT = Path(__file__).resolve().parent.parent
FLUX = ROOT / "examples" / "flux"
WORK = ROOT / "build" / "demo"
PROBE = Path(glowplug.__file__).parent / "agent" / "probe"
BOOT_TIMEOUT_S = 120
PICTURE = {"prompt": "a lighthouse at dusk", "width": 256, "height": 256, "steps": 4, "seed": 1}


def main() -> None:
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    built = build(environ)
    reference = f"{built['index'].partition('@')[0]}"
    server = boot(reference, environ)
    figures = summarize(built, server)
    (ROOT / "build" / "demo.json").write_text(json.dumps(figures, indent=2) + "\n")
    print(report(figures))
    if figures["warm_builds"] or figures["warm_misses"] or not figures["server_hits"]:
        sys.exit("the warm boot compiled something, or used no cache: this must never happen")


def build(environ: dict[str, str]) -> dict:
    """Capture, prove and publish; the progress goes to stderr."""
    command = [sys.executable, "-m", "glowplug", "build", "-f", str(FLUX / "glowplug.yaml"), "--json"]
    done = subprocess.run(
        [*command, "--artifact", f"oci:{WORK / 'artifact'}"], env=environ, stdout=subprocess.PIPE, check=False
    )
    if done.returncode:
        sys.exit(done.returncode)
    return json.loads(done.stdout)


def boot(reference: str, environ: dict[str, str]) -> dict:
    """Start Cog's server under ``glowplug run`` in an empty place, and ask it for one picture."""
    events, port = WORK / "events", free_port()
    events.mkdir()
    # The same witness as in the proof: it counts compile work in the server and its worker.
    path = os.pathsep.join([str(PROBE), *filter(None, [environ.get("PYTHONPATH")])])
    watched = {"PYTHONPATH": path, "GLOWPLUG_PROBE_DIR": str(events)}
    settings = {
        "PORT": str(port),
        "COG_PREDICT_TYPE_STUB": "predict.py:Predictor",
        "COG_LOG_LEVEL": "warning",
    }
    run = [sys.executable, "-m", "glowplug", "run", reference, "--dest", str(WORK / "place"), "--strict"]
    started = time.monotonic()
    with (WORK / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [*run, "--", "python", "-m", "cog.server.http"],
            cwd=FLUX,
            env={**environ, **watched, **settings},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            wait_ready(server, port)
            ready_s = time.monotonic() - started
            picture = predict(port)
            answer_s = time.monotonic() - started
        finally:
            stop(server)
    return {
        "ready_s": ready_s,
        "answer_s": answer_s,
        "picture": picture,
        "work": read_compile_work(events),
    }


def stop(server: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGTERM)
    try:
        server.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def wait_ready(server: subprocess.Popen, port: int) -> None:
    deadline = time.monotonic() + BOOT_TIMEOUT_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            status = call(port, "/health-check")["status"]
        except (OSError, ValueError):
            status = "STARTING"
        if status == "READY":
            return
        if status not in ("STARTING", "BUSY"):
            break
        time.sleep(0.1)
    sys.exit(f"the server did not get ready:\n{(WORK / 'server.log').read_text(errors='replace')}")


def predict(port: int) -> str:
    answer = call(port, "/predictions", {"input": PICTURE})
    if answer.get("status") != "succeeded":
        sys.exit(f"the prediction failed: {answer.get('error')}")
    return answer["output"][:30]


def call(port: int, path: str, body: dict | None = None) -> dict:
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=BOOT_TIMEOUT_S) as reply:  # noqa: S310
        return json.load(reply)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def summarize(built: dict, server: dict) -> dict:
    """Return the figures of build/demo.json; warm_builds and warm_misses add up the replay and the server."""
    proof = built["proof"]
    eager, cold, warm = proof["eager"], proof["cold"], proof["warm"]
    return {
        "eager_s": eager and eager["first_answer_s"],
        "eager_builds": eager and eager["work"]["builds"],
        "eager_misses": eager and misses(eager["work"]),
        "cold_s": cold["first_answer_s"],
        "warm_s": warm["first_answer_s"],
        "cold_builds": cold["work"]["builds"],
        "cold_misses": misses(cold["work"]),
        "warm_builds": warm["work"]["builds"] + server["work"].builds,
        "warm_misses": misses(warm["work"]) + server["work"].misses,
        "server_ready_s": round(server["ready_s"], 2),
        "server_s": round(server["answer_s"], 2),
        "server_builds": server["work"].builds,
        "server_misses": server["work"].misses,
        "server_hits": server["work"].fx_hits + server["work"].aot_hits,
        "reference": built["reference"],
        "digest": built["digest"],
        "size_bytes": built["size_bytes"],
    }


def misses(work: dict) -> int:
    return work["fx_misses"] + work["fx_bypasses"] + work["aot_misses"]


def report(figures: dict) -> str:
    rows = [["", "first answer s", "native builds", "cache misses"]]
    for name, key in (
        ("eager, without torch.compile", "eager"),
        ("cold, compiling", "cold"),
        ("warm, from the artifact", "warm"),
        ("warm Cog server, fetch included", "server"),
    ):
        if figures[f"{key}_s"] is None:  # a model that cannot run without torch.compile
            continue
        cells = [
            f"{figures[f'{key}_s']:.1f}",
            *(str(figures[f"{key}_{what}"]) for what in ("builds", "misses")),
        ]
        rows.append([name, *cells])
    return (
        f"\n{table(rows)}\n\ncold / warm  {figures['cold_s'] / figures['warm_s']:.1f}\n"
        f"artifact     {figures['digest']}\nsize         {figures['size_bytes']} bytes\n"
    )


if __name__ == "__main__":
    main()
