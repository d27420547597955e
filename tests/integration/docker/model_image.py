"""Makes an image with Python, torch, Cog and g++ out of what is installed here: no registry, no network.

The interpreter keeps its path, packages become a virtual environment at ``/opt/model``, and of the system there is
what ``ldd`` says they need, a shell, a few commands and tini.
"""

from __future__ import annotations

import importlib.metadata
import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from integration.services import find_program

ENVIRONMENT = "/opt/model"
APP_UID = 1000
PACKAGES = ("torch", "cog", "numpy")
PROGRAMS = ("sh", "env", "cat", "ls", "sleep", "mkdir", "id", "touch", "kill")
# What only building and testing needs.
_LEFT_OUT = ("torch/test/", "torch/bin/protoc", "torch/bin/test_", "torch/share/")
_LEFT_OUT_OF_STDLIB = (
    "test",
    "idlelib",
    "turtledemo",
    "lib2to3",
    "ensurepip",
    "site-packages",
    "dist-packages",
)
# What compiling a C++ kernel takes, by the names of Debian's packages.
_COMPILER = re.compile(
    r"(g\+\+|gcc|cpp|binutils)(-.*)?|lib(gcc|stdc\+\+)-[0-9]+-dev|libc6-dev|linux-libc-dev"
)
_LEFT_OUT_OF_COMPILER = ("/usr/share/", "/lto1", "/lto-dump", "/gold", "gprof", "/dwp")
_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"


def import_model_image(api: Any, reference: str) -> None:
    """Make the image."""
    repository, _, tag = reference.partition(":")
    changes = ["WORKDIR /src", f"ENV PATH={ENVIRONMENT}/bin:/usr/bin:/bin", "ENV PYTHONUNBUFFERED=1"]
    api.import_image_from_data(_streamed(_Tree().write), repository, tag, changes)


class _Tree:
    """Collects files by their path in the image."""

    def __init__(self) -> None:
        self._files: dict[str, Path] = {}
        self._texts: dict[str, str] = {}
        self._links: dict[str, str] = {name: f"usr/{name}" for name in ("bin", "sbin", "lib", "lib64")}

    def write(self, archive: tarfile.TarFile) -> None:
        self._add_system()
        self._add_interpreter()
        self._add_packages()
        self._add_compiler()
        self._add_libraries()
        for folder in self._folders():
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder in ("tmp", "var/tmp") else 0o755
            entry.uid = entry.gid = APP_UID if folder == "home/app" else 0
            archive.addfile(entry)
        for name, target in self._links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
        for name, text in self._texts.items():
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size = 0o644, len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
        for name, file in self._files.items():
            entry = tarfile.TarInfo(name)
            status = file.stat()
            entry.mode, entry.size = status.st_mode & 0o755 | 0o444, status.st_size
            entry.mtime = int(status.st_mtime)  # bytecode is valid for one time of its source
            with file.open("rb") as content:
                archive.addfile(entry, content)

    def _folders(self) -> list[str]:
        names = {"proc", "sys", "dev", "root", "src", "tmp", "var/tmp", "home/app", "usr/bin", "usr/sbin"}
        names |= {"usr/lib", "usr/lib64"}
        for name in (*self._files, *self._texts, *self._links, *tuple(names)):
            names.update(str(parent) for parent in Path(name).parents)
        return sorted(names - {"."})

    def _add_system(self) -> None:
        for program in PROGRAMS:
            self._files[f"usr/bin/{program}"] = Path(find_program(program, package="coreutils"))
        self._files["usr/bin/tini"] = Path(find_program("tini", package="tini"))
        self._texts["etc/passwd"] = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000:app:/home/app:/bin/sh\n"
        self._texts["etc/group"] = "root:x:0:\napp:x:1000:\n"

    def _add_interpreter(self) -> None:
        base = Path(sys.base_prefix)
        self._files[f"{base}/bin/{_VERSION}".lstrip("/")] = base / "bin" / _VERSION
        library = Path(os.__file__).parent
        for file in _files_below(library):
            parts = file.relative_to(library).parts
            if parts[0] not in _LEFT_OUT_OF_STDLIB and not parts[0].startswith("config-"):
                self._files[str(file).lstrip("/")] = file
        for name in ("python", "python3"):
            self._links[f"{ENVIRONMENT}/bin/{name}".lstrip("/")] = f"{base}/bin/{_VERSION}"
        self._texts[f"{ENVIRONMENT}/pyvenv.cfg".lstrip("/")] = f"home = {base}/bin\n"

    def _add_packages(self) -> None:
        site = f"{ENVIRONMENT}/lib/{_VERSION}/site-packages".lstrip("/")
        for distribution in _with_requirements(PACKAGES):
            for file in distribution.files or ():
                name = file.as_posix()
                if not name.startswith(("../", *_LEFT_OUT)) and "/tests/" not in name:
                    source = Path(str(distribution.locate_file(file)))
                    if source.is_file():
                        self._files[f"{site}/{name}"] = source

    def _add_compiler(self) -> None:
        listed = subprocess.run(
            ["dpkg-query", "--show", "--showformat=${Package}\n"], check=True, capture_output=True, text=True
        ).stdout.split()
        packages = filter(_COMPILER.fullmatch, listed)
        files = subprocess.run(
            ["dpkg", "--listfiles", *packages], check=True, capture_output=True, text=True
        ).stdout
        for name in files.split():
            file = Path(name)
            if any(part in name for part in _LEFT_OUT_OF_COMPILER):
                continue
            if file.is_symlink():
                self._links[name.lstrip("/")] = str(file.readlink())
            elif file.is_file():
                self._files[name.lstrip("/")] = file
        # For vector mathematics and OpenMP; links of the packages above lead there.
        for name in ("libmvec.so.1", "libgomp.so.1"):
            for file in Path("/usr/lib").glob(f"*-linux-gnu/{name}"):
                self._files[str(file).lstrip("/")] = file
        headers = Path(sysconfig.get_paths()["include"])
        for file in _files_below(headers):
            self._files[str(file).lstrip("/")] = file

    def _add_libraries(self) -> None:
        """Add every shared library that lies outside the environment."""
        native = [f for f in self._files.values() if ".so" in f.name or f.parent.name in ("bin", "sbin")]
        done = subprocess.run(["ldd", *map(str, native)], capture_output=True, text=True, check=False)
        ours = {file.resolve() for file in self._files.values()}
        for line in done.stdout.splitlines():
            words = line.split()
            path = next((word for word in words if word.startswith("/") and not word.endswith(":")), None)
            if path and Path(path).resolve() not in ours:
                # Where the loader looks for it; /lib is a link to /usr/lib here as on the host.
                place = path if path.startswith("/usr/") else f"/usr{path}"
                place = place if path.startswith(("/usr/", "/lib")) else path
                self._files[place.lstrip("/")] = Path(path)


def _with_requirements(names: Iterable[str]) -> Iterator[importlib.metadata.Distribution]:
    """Yield the named distributions and all that they require, as they are installed here."""
    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name.lower() in seen:
            continue
        seen.add(name.lower())
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # required on other systems, or left out by whoever installed this
        yield distribution
        for text in distribution.requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)


def _files_below(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _streamed(write: Any) -> Iterator[bytes]:
    """Yield the tar that ``write`` makes, while it is made."""
    reading, writing = os.pipe()

    def produce() -> None:
        with (
            os.fdopen(writing, "wb") as sink,
            tarfile.open(fileobj=sink, mode="w|", bufsize=1 << 20) as archive,
        ):
            write(archive)

    thread = threading.Thread(target=produce)
    thread.start()
    with os.fdopen(reading, "rb") as source:
        while chunk := source.read(1 << 20):
            yield chunk
    thread.join()
