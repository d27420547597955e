"""``python -m glowplug.build.zipapp FOLDER``: the run side in one file that needs nothing but Python, and its image.

The file goes into images that have no pip, or whose packages should stay as they are. The same installed versions and the
same Python always give the same bytes: members are sorted, stored without compression (zlib's output differs between
builds of it), and carry no time.
"""

from __future__ import annotations

import marshal
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from importlib import import_module, metadata
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path

from glowplug import __version__
from glowplug.build.zipapp_image import ZIPAPP_NAME, write_image
from glowplug.core.reference import LayoutRepository
from glowplug.errors import GlowplugError, UsageError
from glowplug.report.console import Console

# isal is native, so a start without it falls back to zlib.
DISTRIBUTIONS = ("click", "glowplug", "urllib3")
# What only a build needs; glowplug.cli says so when it is asked for.
_LEFT_OUT = ("glowplug/build/", "glowplug/engine/", "glowplug/workload/")
_SHEBANG = b"#!/usr/bin/env python3\n"
_MAIN = "glowplug/__main__.py"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the first time that a zip file can hold
# PEP 552: named after its source's hash, which nobody compares at an import.
_UNCHECKED_HASH = (1).to_bytes(4, "little")
# Later versions write an object that is used elsewhere in the process in another way.
_MARSHAL_VERSION = 2


def write_zipapp(path: Path) -> None:
    """Write the run side with its dependencies, licences and metadata to ``path``, executable.

    Every module is there as source, and as bytecode of this interpreter, which more than halves what a start costs
    under the same minor version of Python; others compile the source.

    Raises:
        GlowplugError: the file cannot be written.
    """
    members: dict[str, bytes] = {}
    for name in DISTRIBUTIONS:
        members |= dict(_modules(name))
        members |= dict(_documents(name))
    members["__main__.py"] = members.pop(_MAIN)
    for name, source in tuple(members.items()):
        if name.endswith(".py"):
            members[f"{name}c"] = _bytecode(name, source)
    try:
        _write(path, members)
    except OSError as error:
        raise GlowplugError(f"cannot write {path}: {error.strerror or error}") from error


def _modules(package: str) -> Iterator[tuple[str, bytes]]:
    root = Path(str(import_module(package).__file__)).parent
    for file in root.rglob("*.py"):
        name = f"{package}/{file.relative_to(root).as_posix()}"
        if not name.startswith(_LEFT_OUT):
            yield name, file.read_bytes()


def _documents(distribution: str) -> Iterator[tuple[str, bytes]]:
    # Not what a checkout on the path has of itself (egg-info); one that is not installed has nothing.
    found = metadata.Distribution.discover(name=distribution)
    files = next((one.files or () for one in found if one.read_text("RECORD")), ())
    for file in files:
        folder, _, rest = file.as_posix().partition("/")
        if folder.endswith(".dist-info") and (rest == "METADATA" or rest.startswith("licenses/")):
            yield file.as_posix(), file.read_binary()


def _bytecode(name: str, source: bytes) -> bytes:
    code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    return MAGIC_NUMBER + _UNCHECKED_HASH + source_hash(source) + marshal.dumps(code, _MARSHAL_VERSION)


def _write(path: Path, members: dict[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(_SHEBANG)
            with zipfile.ZipFile(file, "w") as archive:
                for name in sorted(members):
                    member = zipfile.ZipInfo(name, _LONG_AGO)
                    member.external_attr = 0o100644 << 16
                    archive.writestr(member, members[name])
        Path(temporary).chmod(0o755)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def main(arguments: list[str]) -> None:
    """Write ``glowplug.pyz``, and the layout folder ``glowplug-image`` with its image, into a folder.

    Raises:
        UsageError: the only argument is not a folder.
        ToolMissingError: the extra ``build`` is not installed.
        GlowplugError: the folder cannot be written to.
    """
    if len(arguments) != 1 or arguments[0].startswith("-"):
        raise UsageError("it takes the folder to write into", hint="python -m glowplug.build.zipapp dist")
    folder = Path(arguments[0])
    write_zipapp(folder / ZIPAPP_NAME)
    write_image(folder / ZIPAPP_NAME, LayoutRepository(str(folder / "glowplug-image")), __version__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except GlowplugError as error:
        Console().error(str(error), error.hint)
        sys.exit(error.exit_code)
