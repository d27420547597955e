"""The commands that are compared: ours, and what people use instead."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import Case

from glowplug.core.oci import Descriptor

CURLS = 8

ORAS_PULL = """
import sys, oras.client
registry, target, out = sys.argv[1:]
oras.client.OrasClient(hostname=registry, insecure=True).pull(target=target, outdir=out)
"""

TARFILE = """
import sys, tarfile
out, *layers = sys.argv[1:]
for layer in layers:
    with tarfile.open(layer) as archive:
        archive.extractall(out, filter="data")
"""

UNPACK = """
import sys
from pathlib import Path
from glowplug.archive.unpack import Layer, unpack
from glowplug.core.oci import LAYER_TYPE, Descriptor
out, *layers = map(Path, sys.argv[1:])
unpack([Layer(Descriptor(LAYER_TYPE, "sha256:" + path.name.partition(".")[0], path.stat().st_size), path) for path in layers], out)
"""


def python(source: str, *arguments: object) -> tuple[str, ...]:
    """Return a command line that runs a Python text."""
    return (sys.executable, "-c", source, *map(str, arguments))


@dataclass(frozen=True)
class Published:
    """An artifact in a registry.

    Attributes:
        host: ``127.0.0.1:PORT``.
        name: ``repository:tag``.
        layers: its layers.
        files: how many there are in them, links included.
    """

    host: str
    name: str
    layers: tuple[Descriptor, ...]
    files: int

    @property
    def reference(self) -> str:
        """How everybody names it."""
        return f"{self.host}/{self.name}"

    def blob_url(self, layer: Descriptor) -> str:
        """Return where a layer is."""
        return f"http://{self.host}/v2/{self.name.partition(':')[0]}/blobs/{layer.digest}"


def fetch(reference: str, out: Path, files: int | None = None) -> Case:
    """Return our own command; the result stays where no number of files is given."""
    argv = (sys.executable, "-m", "glowplug", "fetch", reference, "--dest", str(out))
    return Case(argv) if files is None else Case(argv, after=cleared(out, files))


def oras_pull(artifact: Published, out: Path) -> Case:
    """Return oras-py's pull."""
    argv = python(ORAS_PULL, artifact.host, artifact.reference, out)
    return Case(argv, before=made(out), after=cleared(out, artifact.files))


def curl_tar(artifact: Published, out: Path) -> Case:
    """Return what a shell script does: one layer after the other."""
    urls = [artifact.blob_url(layer) for layer in artifact.layers]
    lines = [f"curl -sSf {shlex.quote(url)} | tar xz -C {shlex.quote(str(out))}" for url in urls]
    return Case(shell(lines), before=made(out), after=cleared(out, artifact.files))


def skopeo_tar(artifact: Published, out: Path) -> Case:
    """Return a copy to a folder, which skopeo verifies, and tar over its layers."""
    copy = out.with_name(f"{out.name}.copy")
    lines = [
        f"skopeo --insecure-policy copy -q --src-tls-verify=false docker://{artifact.reference} dir:{shlex.quote(str(copy))}"
    ]
    for layer in artifact.layers:
        blob = copy / layer.digest.removeprefix("sha256:")
        lines.append(f"tar xzf {shlex.quote(str(blob))} -C {shlex.quote(str(out))}")

    def clear() -> None:
        shutil.rmtree(copy)
        cleared(out, artifact.files)()

    return Case(shell(lines), before=made(out), after=clear)


def copy(source: Path, out: Path, files: int) -> Case:
    """Return ``cp -r`` of what a fetch made."""
    return Case(("cp", "-r", str(source), str(out)), after=cleared(out, files))


def parallel_curls(artifact: Published) -> Case:
    """Return the time that the network itself needs: some curls at a time, and nothing written."""
    urls = " ".join(shlex.quote(artifact.blob_url(layer)) for layer in artifact.layers)
    return Case(shell([f"printf '%s\\n' {urls} | xargs -P {CURLS} -n 1 curl -sSf -o /dev/null"]))


def unpack_blobs(blobs: Sequence[Path], out: Path, files: int | None = None) -> Case:
    """Return our unpacking alone, verification included; see ``fetch`` for the number."""
    argv = python(UNPACK, out, *blobs)
    return Case(argv) if files is None else Case(argv, after=cleared(out, files))


def tarfile_blobs(blobs: Sequence[Path], out: Path, files: int) -> Case:
    """Return the standard library's safe way."""
    return Case(python(TARFILE, out, *blobs), before=made(out), after=cleared(out, files))


def tar_x(archive: Path, out: Path, files: int) -> Case:
    """Return GNU tar over an archive that is not compressed."""
    return Case(("tar", "xf", str(archive), "-C", str(out)), before=made(out), after=cleared(out, files))


def shell(lines: Sequence[str]) -> tuple[str, ...]:
    """Return a command line that runs a shell text and stops at its first failure."""
    return ("bash", "-euo", "pipefail", "-c", "\n".join(lines))


def made(folder: Path) -> Callable[[], None]:
    """Return what makes an empty folder."""
    return lambda: folder.mkdir(parents=True)


def cleared(folder: Path, files: int) -> Callable[[], None]:
    """Return what removes a result after counting it: who does half the work is not fast."""

    def clear() -> None:
        found = count(folder)
        shutil.rmtree(folder)
        if found != files:
            raise RuntimeError(f"{folder} held {found} files, not {files}")

    return clear


def count(folder: Path) -> int:
    """Return the number of files and links below a folder."""
    return sum(not path.is_dir() for path in folder.rglob("*"))
