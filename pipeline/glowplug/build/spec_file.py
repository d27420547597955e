"""Loads ``glowplug.yaml``: reads the file and what it refers to (variables, cog.yaml, git, weights)."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from glowplug.core.document import Document
from glowplug.core.image import ModelImage
from glowplug.core.reference import LayoutRepository, Repository
from glowplug.core.spec import (
    SETTINGS,
    CogConfig,
    GitForm,
    GitVersion,
    ImageVersion,
    LiteralVersion,
    Origin,
    Overrides,
    Setting,
    Spec,
    settle,
    version_flaw,
)
from glowplug.core.spec_schema import parse_spec
from glowplug.core.surroundings import Surroundings
from glowplug.errors import SpecError, ToolMissingError
from glowplug.workload.cog import read_cog
from glowplug.workload.yaml_file import read_yaml

_GIT_COMMANDS: Mapping[GitForm, tuple[str, ...]] = {
    "describe": ("describe", "--tags", "--always", "--dirty"),
    # Without any tag, describe falls back to the commit, and still tells whether files were changed.
    "commit": ("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"),
}
_GIT_TIMEOUT_S = 60
_OTHER_VERSIONS = 'write the version as text ("${GIT_SHA}"), or give it with --version or GLOWPLUG_VERSION'

# A tag has room for 64 characters of version; 16 hexadecimal digits tell weights apart and can be read out.
_FILE_VERSION_DIGITS = 16
_CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True)
class LoadedSpec:
    """A spec with everything looked up that it refers to.

    Attributes:
        spec: the spec; a relative ``oci:`` folder in it is absolute now.
        version: the model's version, as it stands in annotations (``version_tag`` makes a tag of it); empty where
            the image says it, until that is there.
        folder: where the spec file is, absolute; the paths in the spec are relative to it.
        origins: where the version and the artifact come from.
        image: the model's image, once it is there.
    """

    spec: Spec
    version: str
    folder: Path
    origins: Mapping[Setting, Origin]
    image: ModelImage | None = None


def load_spec(path: Path, environ: Mapping[str, str], overrides: Overrides | None = None) -> LoadedSpec:
    """Read and check the spec at ``path``, and find out the model's version.

    What the spec says yields to ``GLOWPLUG_VERSION`` and ``GLOWPLUG_ARTIFACT``, and these to ``overrides``.

    Raises:
        SpecError: the file is unreadable or invalid (one line for each problem), or no version is found.
        ToolMissingError: PyYAML is not installed, or git is needed and is not.
    """
    document = read_yaml(path)
    folder = path.absolute().parent
    settled = settle(overrides or Overrides(), environ)
    spec = parse_spec(
        document,
        Surroundings(environ, partial(_read_cog, path.parent), partial(_file_digest, folder), settled),
    )
    origins: dict[Setting, Origin] = {
        setting: settled[setting].origin if setting in settled else "spec" for setting in SETTINGS
    }
    _require_dir(spec, document, folder)
    version = _version(spec, document, folder, environ)
    if origins["artifact"] == "spec":
        spec = replace(spec, artifact=_anchored(spec.artifact, folder))
    return LoadedSpec(spec, version, folder, origins)


def _read_cog(spec_folder: Path, folder: str) -> CogConfig:
    return read_cog(spec_folder / folder)


def _file_digest(spec_folder: Path, path: str) -> str:
    try:
        return f"sha256:{_file_sha256(spec_folder / path)}"
    except OSError as error:
        raise SpecError(f"{spec_folder / path} cannot be read: {error.strerror}") from error


def _require_dir(spec: Spec, document: Document, folder: Path) -> None:
    workload = spec.run.workload
    if not (folder / workload.dir).is_dir():
        message = f"{document.place('run.dir')}: there is no folder {folder / workload.dir}"
        raise SpecError(message, hint="run.dir is relative to the folder of the spec")


def _anchored(repository: Repository, folder: Path) -> Repository:
    if isinstance(repository, LayoutRepository):
        return LayoutRepository(os.path.normpath(folder / repository.path))
    return repository


def _version(spec: Spec, document: Document, folder: Path, environ: Mapping[str, str]) -> str:
    source = spec.model.version_source
    if isinstance(source, LiteralVersion):
        return source.text
    if isinstance(source, ImageVersion):
        return ""
    place = document.place("model.version")
    try:
        if isinstance(source, GitVersion):
            version = _git_version(source.form, folder, environ)
        else:
            version = _file_version(folder / source.path)
    except SpecError as error:
        raise SpecError(f"{place}: {error}", hint=error.hint) from error
    flaw = version_flaw(version)
    if flaw:
        raise SpecError(f"{place}: '{version}' {flaw}", hint=_OTHER_VERSIONS)
    return version


def _git_version(form: GitForm, folder: Path, environ: Mapping[str, str]) -> str:
    # GIT_OPTIONAL_LOCKS=0: --dirty must not try to refresh the index of a read-only checkout.
    env = {**environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    command = ["git", "-C", str(folder), *_GIT_COMMANDS[form]]
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, errors="replace", timeout=_GIT_TIMEOUT_S, check=False
        )
    except FileNotFoundError as error:
        message = "model.version asks git, which is not installed"
        raise ToolMissingError(message, hint=f"install git, or {_OTHER_VERSIONS}") from error
    except subprocess.TimeoutExpired as error:
        raise SpecError(f"git gave no answer in {_GIT_TIMEOUT_S} s", hint=_OTHER_VERSIONS) from error
    if done.returncode == 0:
        return done.stdout.strip()
    if "dubious ownership" in done.stderr:
        message = f"git does not trust {folder}, which belongs to another user"
        raise SpecError(message, hint=f"git config --global --add safe.directory {folder}")
    if "not a git repository" in done.stderr:
        raise SpecError(f"{folder} is not in a git repository", hint=_OTHER_VERSIONS)
    if "bad revision 'HEAD'" in done.stderr:
        raise SpecError(f"the git repository of {folder} has no commit yet", hint=_OTHER_VERSIONS)
    last = done.stderr.strip().splitlines()[-1:] or ["no message"]
    raise SpecError(f"git failed: {last[0]}", hint=_OTHER_VERSIONS)


def _file_version(path: Path) -> str:
    try:
        digest = _folder_sha256(path) if path.is_dir() else _file_sha256(path)
    except OSError as error:
        raise SpecError(f"{error.filename} cannot be read: {error.strerror}") from error
    return f"sha256-{digest[:_FILE_VERSION_DIGITS]}"


def _folder_sha256(folder: Path) -> str:
    """Hash the names and contents of all files; a link to a file counts as the file."""
    digests = {}
    for place, folders, files in os.walk(folder, onerror=_raise):
        for name in folders:
            if Path(place, name).is_symlink():
                message = f"{Path(place, name)} is a link to a folder, and links to folders are not followed"
                raise SpecError(message, hint="name the folder that it points to")
        for name in files:
            path = Path(place, name)
            digests[path.relative_to(folder).as_posix()] = _file_sha256(path)
    if not digests:
        raise SpecError(f"{folder} holds no file")
    listing = b"".join(b"%s\0%s\n" % (os.fsencode(name), digests[name].encode()) for name in sorted(digests))
    return hashlib.sha256(listing).hexdigest()


def _raise(error: OSError) -> None:
    raise error


def _file_sha256(path: Path) -> str:
    sha256 = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            sha256.update(chunk)
    return sha256.hexdigest()
