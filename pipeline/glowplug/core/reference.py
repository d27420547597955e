"""Names of artifacts: ``ghcr.io/acme/flux-cache:v3``, ``localhost:5000/x@sha256:...``, ``oci:PATH:TAG``.

Grammar: OCI distribution-spec 1.1, "Pulling manifests" (repository and tag), plus the ``oci:`` transport as
skopeo and podman spell it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from glowplug.errors import UsageError

_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_NAME = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?")

_LAYOUT_PREFIX = "oci:"
_EXAMPLES = "a reference looks like ghcr.io/acme/flux-cache:v3 or oci:./build/cache:v3"


class RegistryRepository(NamedTuple):
    """A repository in a registry: ``host`` may carry a port, ``name`` is the path below it."""

    host: str
    name: str

    @property
    def is_loopback(self) -> bool:
        """Whether the host is this machine, where plain HTTP is the convention."""
        bare = self.host.rsplit(":", 1)[0] if not self.host.endswith("]") else self.host
        return bare in ("localhost", "[::1]") or re.fullmatch(r"127(?:\.\d{1,3}){3}", bare) is not None

    def __str__(self) -> str:
        return f"{self.host}/{self.name}"


class LayoutRepository(NamedTuple):
    """An OCI image layout folder (image-spec, "OCI Image Layout"): a repository that needs no server."""

    path: str

    def __str__(self) -> str:
        return f"{_LAYOUT_PREFIX}{self.path}"


Repository = RegistryRepository | LayoutRepository


class Reference(NamedTuple):
    """One artifact: a repository and a tag, a digest, or both (then the digest decides)."""

    repository: Repository
    tag: str | None = None
    digest: str | None = None

    @property
    def selector(self) -> str:
        """What is asked of the registry: the digest when there is one, else the tag."""
        selector = self.digest or self.tag
        if selector is None:  # the parsers below never build such a reference
            raise UsageError(f"{self} names a repository, not an artifact", hint="add :TAG or @sha256:DIGEST")
        return selector

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.repository}{tag}{digest}"


def is_tag(text: str) -> bool:
    """Whether ``text`` may be a tag (distribution-spec: at most 128 characters)."""
    return _TAG.fullmatch(text) is not None


def is_digest(text: str) -> bool:
    """Whether ``text`` is a sha256 digest, the only algorithm that artifacts of ours use."""
    return _DIGEST.fullmatch(text) is not None


def parse_repository(text: str) -> Repository:
    """Read a repository, without tag or digest.

    Raises:
        UsageError: it is none, or it carries a tag or a digest.
    """
    repository, tag, digest = _split(text)
    if tag is not None or digest is not None:
        raise UsageError(
            f"'{text}' carries a tag or a digest where a repository is expected",
            hint=f"write {repository}; tags are made from the model's version and the GPU type",
        )
    return repository


def parse_reference(text: str) -> Reference:
    """Read a full reference.

    Raises:
        UsageError: it cannot be read, or names no tag and no digest.
    """
    repository, tag, digest = _split(text)
    if tag is None and digest is None:
        raise UsageError(f"'{text}' names a repository, not an artifact", hint="add :TAG or @sha256:DIGEST")
    return Reference(repository, tag, digest)


def parse_image_reference(text: str) -> Reference:
    """Read the name of an image as ``docker run`` takes it: ``flux`` is ``docker.io/library/flux:latest``.

    Raises:
        UsageError: it cannot be read.
    """
    first, slash, _ = text.partition("/")
    if not text.startswith(_LAYOUT_PREFIX):
        if not slash:
            text = f"docker.io/library/{text}"
        elif not ("." in first or ":" in first or first == "localhost"):
            text = f"docker.io/{text}"
    repository, tag, digest = _split(text)
    return Reference(repository, tag if tag or digest else "latest", digest)


def _split(text: str) -> tuple[Repository, str | None, str | None]:
    rest, _, digest = text.rpartition("@") if "@sha256:" in text else (text, "", "")
    if digest and not is_digest(digest):
        raise UsageError(f"'{text}' ends in something that is not a sha256 digest", hint=_EXAMPLES)
    if rest.startswith(_LAYOUT_PREFIX):
        return (*_split_layout(text, rest.removeprefix(_LAYOUT_PREFIX)), digest or None)
    return (*_split_registry(text, rest), digest or None)


def _split_layout(text: str, rest: str) -> tuple[LayoutRepository, str | None]:
    path, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:
        path, tag = rest, ""
    if not path or (tag and not is_tag(tag)):
        raise UsageError(f"'{text}' is not a layout reference", hint="it looks like oci:PATH:TAG")
    return LayoutRepository(path), tag or None


def _split_registry(text: str, rest: str) -> tuple[RegistryRepository, str | None]:
    host, slash, name = rest.partition("/")
    name, colon, tag = name.partition(":")
    if not slash or not _HOST.fullmatch(host) or not ("." in host or ":" in host or host == "localhost"):
        raise UsageError(f"'{text}' does not start with a registry host", hint=_EXAMPLES)
    if not _NAME.fullmatch(name):
        hint = "repository names are lower-case" if name != name.lower() else _EXAMPLES
        raise UsageError(f"'{text}' has no valid repository name", hint=hint)
    if colon and not is_tag(tag):
        raise UsageError(
            f"'{text}' has no valid tag", hint="a tag is at most 128 letters, digits, '.', '_' and '-'"
        )
    return RegistryRepository(host, name), tag or None
