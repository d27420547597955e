"""Cache roots to measure with, made of real content and kept between runs.

``mixed``: about 3,000 files and 300 MB, the shape of a large model's cache: Triton entries for sm_90, an Inductor cache,
and shared objects and Python sources of installed packages for the rest. ``small``: 20,000 files of 5 kB. ``large``:
60,000 files, 3 GB. The last two are cut from the content of the first.

Usage: dataset.py FOLDER NAME...     (prints where they are, as JSON)
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

CONTENT = Path(__file__).with_name("content")
TRITON_ENTRIES = 260
MIXED_FILES, MIXED_BYTES = 3_000, 300_000_000
# Installed libraries are larger than kernels, and are cut to at most this size.
LIBRARY_BYTES = 1_000_000
SOURCE_BYTES = range(2_000, 200_000)


def prepare(folder: Path, names: tuple[str, ...]) -> dict[str, Path]:
    """Return the data sets' folders by name, made below ``folder`` unless an earlier run did."""
    home = folder / _fingerprint()
    return {name: _made(home / name, BUILDERS[name]) for name in names}


def _made(root: Path, build: Callable[[Path], None]) -> Path:
    if not root.exists():
        partial = root.with_name(f".{root.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        build(partial)
        partial.rename(root)
    return root


def _fingerprint() -> str:
    """Name what the content follows from."""
    digest = hashlib.sha256()
    for source in (Path(__file__), *sorted(CONTENT.glob("*.py"))):
        digest.update(source.read_bytes())
    versions = [importlib.metadata.version(name) for name in ("torch", "triton")]
    digest.update(repr([platform.python_version(), *versions]).encode())
    return digest.hexdigest()[:12]


def _mixed(root: Path) -> None:
    _run("triton_kernels.py", str(TRITON_ENTRIES), TRITON_CACHE_DIR=str(root / "triton"))
    # Compiled into the folder of a capture: headers are not precompiled, since no artifact holds them.
    _run(
        "inductor_models.py",
        TORCHINDUCTOR_CACHE_DIR=str(root / "inductor"),
        TORCHINDUCTOR_CPP_CACHE_PRECOMPILED_HEADERS="0",
    )
    shutil.rmtree(root / "inductor" / "locks", ignore_errors=True)
    sizes = [path.stat().st_size for path in _files(root)]
    _fill(root / "inductor", MIXED_FILES - len(sizes), MIXED_BYTES - sum(sizes))


def _run(script: str, *arguments: str, **environment: str) -> None:
    command = [sys.executable, "-W", "ignore", str(CONTENT / script), *arguments]
    subprocess.run(command, env=os.environ | environment, check=True)


def _fill(folder: Path, files: int, size_bytes: int) -> None:
    """Add pieces of shared objects until the size is reached, and Python sources until the number is."""
    libraries, sources = _libraries(), _sources()
    while size_bytes > 0:
        content = next(libraries)
        _store(folder, content, ".so")
        size_bytes, files = size_bytes - len(content), files - 1
        # So many that both counts are reached at about the same time.
        for _ in range(max(files, 0) * len(content) // max(size_bytes, len(content))):
            content = next(sources)
            _store(folder, content, ".py")
            size_bytes, files = size_bytes - len(content), files - 1


def _libraries() -> Iterator[bytes]:
    for path in _installed(".so"):
        with path.open("rb") as file:
            while content := file.read(LIBRARY_BYTES):
                yield content


def _sources() -> Iterator[bytes]:
    return (path.read_bytes() for path in _installed(".py") if path.stat().st_size in SOURCE_BYTES)


def _installed(suffix: str) -> Iterator[Path]:
    """Yield files of the interpreter and of installed packages, always in the same order."""
    for place in ("stdlib", "platlib"):
        yield from (path for path in _files(Path(sysconfig.get_path(place))) if path.suffix == suffix)


def _store(folder: Path, content: bytes, suffix: str) -> None:
    """Name a file after its content, as Inductor does."""
    name = hashlib.sha256(content).hexdigest()[:51]
    path = folder / name[:2] / f"c{name}{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755 if suffix == ".so" else 0o644)


def _small(root: Path) -> None:
    _cut(root, 20_000, 5_000)


def _large(root: Path) -> None:
    _cut(root, 60_000, 50_000)


def _cut(root: Path, files: int, file_bytes: int) -> None:
    """Make files of one size, eight to a folder as in a Triton cache, all different."""
    corpus = b"".join(path.read_bytes() for path in _files(_made(root.parent / "mixed", _mixed)))
    # A step that shares no factor with the length visits every place before it comes back to one.
    step = file_bytes + 1
    for number in range(files):
        folder = root / "triton" / hashlib.sha256(b"%d" % (number // 8)).hexdigest().upper()[:52]
        folder.mkdir(parents=True, exist_ok=True)
        start = number * step % (len(corpus) - file_bytes)
        (folder / f"kernel_{number % 8}.cubin").write_bytes(corpus[start : start + file_bytes])


def _files(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (path for name in sorted(names) if not (path := Path(folder, name)).is_symlink())


BUILDERS: dict[str, Callable[[Path], None]] = {"mixed": _mixed, "small": _small, "large": _large}


if __name__ == "__main__":
    made = prepare(Path(sys.argv[1]), tuple(sys.argv[2:]))
    print(json.dumps({name: str(root) for name, root in made.items()}))
