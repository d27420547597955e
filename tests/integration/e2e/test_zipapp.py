"""glowplug.pyz under a Python that has no package at all, neither ours nor what ours needs."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from glowplug import __version__
from glowplug.build import zipapp as building
from glowplug.core.reference import RegistryRepository
from glowplug.host.facts import gather_facts
from integration.e2e.commands import Done, Probe
from integration.e2e.conftest import Built
from integration.e2e.repositories import copy, tree
from integration.services import RegistryService, find_program, free_port

DOCS = Path(__file__).parents[3] / "docs" / "how-to"

# Another first module than the capture's imports torch: the start file has to make up for it. It serves whoever asks
# first, which is glowplug's question whether it is ready.
SERVER = """
import signal
import socket
import sys

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
import torch
import model

for n in (4, 6):
    model.answer(n)
if len(sys.argv) == 2:
    with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listener:
        listener.accept()
        print("serving", flush=True)
        signal.sigwait([signal.SIGTERM])
"""


@dataclass(frozen=True)
class Bare:
    """A bare Python, the file that it runs, and an environment without anything of ours."""

    python: Path
    zipapp: Path
    image: Path
    environ: dict[str, str]

    def command(self, *arguments: str | Path) -> list[str]:
        return [str(self.python), "-I", str(self.zipapp), *map(str, arguments)]

    def run(self, *arguments: str | Path, **variables: str) -> Done:
        env = {**self.environ, **variables}
        done = subprocess.run(
            self.command(*arguments), env=env, capture_output=True, text=True, timeout=120, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def bare(workspace: Path) -> Iterator[Bare]:
    folder = workspace / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    building.main([str(folder)])
    for name in ("home", "tmp"):
        (folder / name).mkdir()
    environ = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),  # the model's python
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
    }
    yield Bare(folder / "venv/bin/python", folder / "glowplug.pyz", folder / "glowplug-image", environ)
    assert list((folder / "tmp").iterdir()) == []  # no start leaves anything


@pytest.fixture
def pushed(square: Built, registry: RegistryService) -> RegistryRepository:
    repository = registry.repository("e2e/zipapp")
    copy(square.layout, repository)
    return repository


def test_the_python_has_nothing(bare: Bare) -> None:
    for package in ("click", "urllib3", "isal", "glowplug"):
        assert (
            subprocess.run(
                [str(bare.python), "-I", "-c", f"import {package}"], check=False, stderr=subprocess.DEVNULL
            ).returncode
            == 1
        )


def test_it_says_its_version_and_what_it_takes_the_model_s_python_for(bare: Bare) -> None:
    assert bare.run("--version").stdout == f"glowplug, version {__version__}\n"
    facts = bare.run("facts", "--json").json
    assert facts["target"] == gather_facts(Path(sys.executable)).target.to_json()


def test_a_build_is_refused_in_one_sentence(bare: Bare) -> None:
    done = bare.run("build")
    assert (done.status, done.stdout) == (32, "")
    assert done.stderr == (
        "error: glowplug.pyz is glowplug's run side, which has no 'build'\nhint: pip install 'glowplug[build]'\n"
    )


def test_it_fetches_from_a_folder_and_from_a_registry(
    bare: Bare, square: Built, pushed: RegistryRepository, tmp_path: Path
) -> None:
    for place, repository in (("a", f"oci:{square.layout}"), ("b", str(pushed))):
        done = bare.run("fetch", f"{repository}:{square.tag}", "--dest", tmp_path / place, "--json")
        assert (done.status, done.json["digest"]) == (0, square.digest), done.stderr
        assert (
            bare.run("inspect", f"{repository}:{square.tag}", "--json").json["artifacts"][0]["digest"]
            == square.digest
        )
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
    assert (tmp_path / "a" / "start" / "sitecustomize.py").is_file()


def test_a_model_starts_warm_and_sends_back_what_it_compiled(
    bare: Bare, square: Built, pushed: RegistryRepository, tmp_path: Path
) -> None:
    """The first start is `glowplug run`, the next one the Kubernetes page's: an init container, then the server."""
    reference = f"{pushed}:{square.tag}"
    server = tmp_path / "server.py"
    server.write_text(SERVER)
    probe = Probe(tmp_path / "first")
    env = {**bare.environ, **probe.environ(square.project.folder)}
    serve(bare, [reference, "--update", "direct"], server, env)
    work = probe.work()
    assert (work.fx_hits, work.fx_misses) == (1, 1)  # the size that was captured, and the one that was not

    fetching, serving = kubernetes_scripts(bare, reference, tmp_path / "pod", server)
    (tmp_path / "pod" / "cache").mkdir(parents=True)
    (tmp_path / "pod" / "cache" / "left-by-a-run-before").touch()
    probe = Probe(tmp_path / "second")
    env = {**bare.environ, **probe.environ(square.project.folder)}
    subprocess.run(["sh", "-c", fetching], env=env, check=True)
    subprocess.run(["sh", "-c", serving], env=env, check=True)
    work = probe.work()
    assert (work.total, work.fx_hits) == (0, 2)


def serve(bare: Bare, arguments: list[str], server: Path, env: dict[str, str]) -> None:
    """Start the server, stop it once it is ready."""
    port, log_file = free_port(), server.with_name("log")
    words = ["run", *arguments, "--strict", "--ready", f"127.0.0.1:{port}", "--", "python", server, str(port)]
    with log_file.open("wb") as log:
        process = subprocess.Popen(bare.command(*words), env=env, stdout=log, stderr=log)
    try:
        give_up = time.monotonic() + 120
        while "serving" not in log_file.read_text():
            assert process.poll() is None, log_file.read_text()
            assert time.monotonic() < give_up, log_file.read_text()
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log_file.read_text()
    finally:
        process.kill()
        process.wait()
    assert "published what was compiled here" in log_file.read_text()


def kubernetes_scripts(bare: Bare, reference: str, pod: Path, server: Path) -> tuple[str, str]:
    """Return what the two containers of the documentation run, with the places of this machine."""
    blocks = re.findall(r"```yaml\n(.*?)```", (DOCS / "kubernetes.md").read_text(), re.DOTALL)
    pods = [yaml.safe_load(textwrap.dedent(block)) for block in blocks]
    (found,) = [pod for pod in pods if pod.keys() == {"initContainers", "containers", "volumes"}]
    scripts = [found[name][0]["args"][0] for name in ("initContainers", "containers")]
    for written, meant in (
        ("python /tools/glowplug.pyz", shlex.join(bare.command())),
        ("ghcr.io/acme/flux-cache:v3", reference),
        ("/glowplug/", f"{pod}/"),
        ("-m cog.server.http", str(server)),
    ):
        assert any(written in script for script in scripts)
        scripts = [script.replace(written, meant) for script in scripts]
    return scripts[0], scripts[1]


def test_an_old_python_starts_the_server_without_it(bare: Bare) -> None:
    started = old_python(bare, "run", "oci:none:v1", "--", "echo", "served")
    assert (started.status, started.stdout) == (0, "served\n")
    assert started.stderr == f"warning: no cache: {old_python_text(bare)}; starting cold\n"


@pytest.mark.parametrize(
    "arguments",
    [["fetch", "oci:none:v1"], ["run", "oci:none:v1"], ["run", "--strict", "oci:none:v1", "--", "echo", "served"]],
)  # fmt: skip
def test_an_old_python_is_one_sentence(bare: Bare, arguments: list[str]) -> None:
    done = old_python(bare, *arguments)
    assert (done.status, done.stdout, done.stderr) == (32, "", f"error: {old_python_text(bare)}\n")


def old_python(bare: Bare, *arguments: str) -> Done:
    """Run the file under this Python when it says that it is another."""
    code = (
        "import runpy, sys; sys.version_info = (3, 9, 2); sys.version = '3.9.2 (default)'; sys.argv[:1] = []; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    words = [str(bare.python), "-I", "-c", code, str(bare.zipapp), *arguments]
    done = subprocess.run(words, env=bare.environ, capture_output=True, text=True, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


def old_python_text(bare: Bare) -> str:
    return f"glowplug needs Python 3.10 or newer, and {bare.python} is 3.9.2"


def test_the_python_interface_works_from_the_file(bare: Bare) -> None:
    """On PYTHONPATH it is a package; the start file in it is no file on disk."""
    code = (
        "import sys, glowplug.boot.prefetch as p; p._stabilize_keys(); print(type(sys.meta_path[0]).__name__)"
    )
    env = {**bare.environ, "PYTHONPATH": str(bare.zipapp)}
    done = subprocess.run([str(bare.python), "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "_AfterImport\n"


def test_an_image_takes_it_with_copy_from(
    bare: Bare, registry: RegistryService, workspace: Path, tmp_path: Path
) -> None:
    image = f"{registry.host}/e2e/glowplug:{__version__}"
    skopeo = [find_program("skopeo", package="skopeo"), "--insecure-policy", "copy", "--quiet", "--all"]
    layout = f"oci:{bare.image}:{__version__}"
    subprocess.run([*skopeo, "--dest-tls-verify=false", layout, f"docker://{image}"], check=True)
    context, out = tmp_path / "context", tmp_path / "out"
    context.mkdir()
    (context / "Dockerfile").write_text(
        f"FROM scratch\nCOPY --from={image} /glowplug.pyz /usr/local/bin/glowplug\n"
    )
    words = [find_program("buildah", package="buildah"), "--storage-driver", "vfs"]
    words += ["--root", str(workspace / "buildah"), "--runroot", str(workspace / "buildah-run")]
    words += ["build", "--isolation", "chroot", "--tls-verify=false", "--output", f"type=local,dest={out}"]
    subprocess.run([*words, str(context)], check=True, stdout=subprocess.DEVNULL)
    installed = out / "usr" / "local" / "bin" / "glowplug"
    assert installed.read_bytes() == bare.zipapp.read_bytes()
    done = subprocess.run(
        [str(installed), "--version"], env=bare.environ, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"glowplug, version {__version__}\n"
