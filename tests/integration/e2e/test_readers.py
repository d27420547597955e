"""Other programs read our artifacts: each is an ordinary image to them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import oras.provider
import pytest

from glowplug.core.oci import digest_of
from integration.e2e.client import CLIENT
from integration.e2e.commands import Probe, Shell
from integration.e2e.conftest import Built, Targets
from integration.e2e.repositories import copy, layer_files, layout, tree
from integration.services import RegistryService, find_program


@dataclass(frozen=True)
class Published:
    """The artifact of ``network`` in a registry."""

    registry: RegistryService
    name: str
    tag: str
    digest: str
    files: dict[str, bytes]

    @property
    def reference(self) -> str:
        return f"{self.registry.host}/{self.name}:{self.tag}"


@pytest.fixture(scope="module")
def published(registry: RegistryService, network: Built) -> Published:
    name = "e2e/network"
    copy(network.layout, registry.repository(name))
    files = layer_files(network.layout, network.digest)
    assert {"glowplug/record.json", "glowplug/inventory.json"} < files.keys()
    assert any(path.startswith("glowplug/inductor/fxgraph/") for path in files)
    return Published(registry, name, network.tag, network.digest, files)


@pytest.fixture(scope="module")
def pulled(published: Published, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What oras-py's own pull makes of the artifact."""
    folder = tmp_path_factory.mktemp("pulled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("oras")))  # it leaves things there
        client = oras.provider.Registry(hostname=published.registry.host, insecure=True)
        client.pull(published.reference, outdir=str(folder))
    return folder


def test_oras_py_unpacks_the_folder(published: Published, pulled: Path) -> None:
    assert tree(pulled) == published.files


def test_torch_hits_a_plain_copy_of_the_folder(pulled: Path, network: Built, tmp_path: Path) -> None:
    """Without Glowplug at the start: the folder as any tool unpacks it, and the variables that the docs ask for."""
    place = tmp_path / "image" / "glowplug"
    shutil.copytree(pulled / "glowplug", place)
    shell, probe = Shell(tmp_path / "shell"), Probe(tmp_path / "events")
    env = shell.environ(
        **json.loads((place / "record.json").read_bytes())["contract"],
        TORCHINDUCTOR_CACHE_DIR=str(place / "inductor"),
        **probe.environ(place / "start", network.project.folder),
    )
    said = shell.run([sys.executable, "-c", CLIENT], env).json
    work = probe.work()
    assert (work.total, work.fx_hits, work.aot_hits) == (0, 1, 1)
    assert said["compiled"] == pytest.approx(said["eager"], rel=1e-5, abs=1e-6)


def test_skopeo_copies_it_away_and_back(published: Published, tmp_path: Path) -> None:
    folder, back = tmp_path / "layout", f"{published.registry.host}/{published.name}-back:v1"
    _skopeo("copy", "--src-tls-verify=false", f"docker://{published.reference}", f"oci:{folder}:v1")
    assert layout(folder).resolve("v1").digest == published.digest
    assert layer_files(folder, published.digest) == published.files
    _skopeo("copy", "--dest-tls-verify=false", f"oci:{folder}:v1", f"docker://{back}")
    raw = _skopeo("inspect", "--tls-verify=false", "--raw", f"docker://{back}")
    assert digest_of(raw) == published.digest


def test_skopeo_copies_an_index_with_all_its_targets(
    registry: RegistryService, two_targets: Targets, tmp_path: Path
) -> None:
    here, there = registry.repository("e2e/targets"), registry.repository("e2e/targets-copy")
    copy(two_targets.layout, here)
    original = layout(two_targets.layout).resolve("v1.4")
    plain = ["--all", "--src-tls-verify=false", "--dest-tls-verify=false"]
    _skopeo("copy", *plain, f"docker://{here}:v1.4", f"docker://{there}:v1.4")
    assert _skopeo("inspect", "--tls-verify=false", "--raw", f"docker://{there}:v1.4") == original.raw
    _skopeo("copy", *plain, f"docker://{there}:v1.4", f"oci:{tmp_path / 'layout'}:v1.4")
    shell = Shell(tmp_path / "shell")
    shown = shell.glowplug("inspect", f"oci:{tmp_path / 'layout'}:v1.4", "--json").json["artifacts"]
    assert sorted(artifact["gpu_type"] for artifact in shown) == two_targets.done.json["targets"]


def test_skopeo_shows_the_labels(published: Published) -> None:
    config = json.loads(
        _skopeo("inspect", "--tls-verify=false", "--config", f"docker://{published.reference}")
    )
    labels = config["config"]["Labels"]
    assert (config["os"], labels["dev.glowplug.model.name"]) == ("linux", "tiny")
    assert json.loads(labels["dev.glowplug.record"]) == json.loads(published.files["glowplug/record.json"])


@pytest.mark.parametrize("program", ["podman", "buildah"])
def test_an_image_takes_the_folder_with_copy_from(
    published: Published, program: str, workspace: Path, tmp_path: Path
) -> None:
    context, out = tmp_path / "context", tmp_path / "out"
    context.mkdir()
    recipe = f"FROM scratch\nCOPY --from={published.reference} /glowplug /glowplug\n"
    (context / "Containerfile").write_text(recipe)
    build = ["build", "--isolation", "chroot", "--tls-verify=false", "--output", f"type=local,dest={out}"]
    _containers(program, workspace, *build, str(context))
    assert tree(out) == published.files


def test_podman_pulls_it(published: Published, workspace: Path) -> None:
    _containers("podman", workspace, "pull", "--quiet", "--tls-verify=false", published.reference)
    (image,) = json.loads(_containers("podman", workspace, "image", "inspect", published.reference))
    assert image["Digest"] == published.digest
    assert image["Labels"]["dev.glowplug.model.version"] == "v1"


def _skopeo(command: str, *arguments: str) -> bytes:
    words = [find_program("skopeo", package="skopeo"), "--insecure-policy", command, *arguments]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout


def _containers(program: str, folder: Path, *arguments: str) -> bytes:
    """Run podman or buildah with a storage of the tests' own; podman wants a short path for it."""
    words = [find_program(program, package=program), "--storage-driver", "vfs"]
    words += ["--root", str(folder / program), "--runroot", str(folder / f"{program}-run")]
    return subprocess.run([*words, *arguments], check=True, stdout=subprocess.PIPE).stdout
