"""A model's image, as a registry or a container engine describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, TypedDict

from glowplug.core.reference import Reference, parse_image_reference

# Programs that are made to be process 1: they hand signals on and reap orphans.
_INITS = frozenset({"tini", "tini-static", "dumb-init", "docker-init", "catatonit", "s6-svscan", "init"})
_ROOT = PurePosixPath("/")

# As many hexadecimal digits as tell images apart in a tag, and can be read out.
_VERSION_DIGITS = 16


class RunSettings(TypedDict):
    """How an image's containers run, by the names of ``ModelImage``."""

    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    workdir: PurePosixPath
    user: str
    env: Mapping[str, str]
    labels: Mapping[str, str]


@dataclass(frozen=True)
class ModelImage:
    """An image.

    Attributes:
        reference: as the spec names it.
        id: digest of its configuration.
        digest: ``repository@sha256:...`` of what the reference means in a registry, for several platforms the index;
            ``None`` for an image that no registry has.
        architecture: ``amd64``, ``arm64``, as Go calls it.
        size_bytes: of its layers: compressed where a registry describes it, unpacked where an engine does.
        entrypoint: what every command is handed to.
        command: what it runs when it is told nothing else.
        workdir: where commands start.
        user: as whom, ``""`` for root: a name or a number, with or without a group.
        env: its own variables.
        labels: what else it says about itself.
    """

    reference: str
    id: str
    digest: str | None
    architecture: str
    size_bytes: int
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    workdir: PurePosixPath = _ROOT
    user: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """The digest that names exactly this image: a registry's where there is one, else its configuration's."""
        return self.digest.rpartition("@")[2] if self.digest else self.id

    @property
    def version(self) -> str:
        """The version of a model that is as new as its image: short, and fit for a tag."""
        return f"sha256-{self.identity.removeprefix('sha256:')[:_VERSION_DIGITS]}"

    @property
    def published(self) -> Reference | None:
        """The image in its registry, by digest; ``None`` when no registry has it."""
        return parse_image_reference(self.digest) if self.digest else None

    @property
    def recorded(self) -> str:
        """What an artifact says of the image in which it was made: the reference by digest, else the digest alone."""
        return self.digest or self.id

    @property
    def has_init(self) -> bool:
        """Whether its entrypoint starts with an init process."""
        return bool(self.entrypoint) and PurePosixPath(self.entrypoint[0]).name in _INITS

    @property
    def expects_gpu(self) -> bool:
        """Whether it is made for NVIDIA's runtime, as every CUDA image is."""
        return self.env.get("NVIDIA_VISIBLE_DEVICES", "void") not in ("", "void", "none")


def run_settings(config: Any) -> RunSettings:
    """Read how containers run from ``config`` of an image config (image-spec, "Image Configuration").

    A container engine tells the same under the same names. What is of another type than it should be reads as absent.
    """
    found = config if isinstance(config, Mapping) else {}
    workdir, user, labels = found.get("WorkingDir"), found.get("User"), found.get("Labels")
    env = dict(item.partition("=")[::2] for item in _texts(found.get("Env")))
    return {
        "entrypoint": _texts(found.get("Entrypoint")),
        "command": _texts(found.get("Cmd")),
        "workdir": _ROOT / workdir if isinstance(workdir, str) else _ROOT,
        "user": user if isinstance(user, str) else "",
        "env": {name: value for name, value in env.items() if name},
        "labels": {
            name: value
            for name, value in (labels.items() if isinstance(labels, Mapping) else ())
            if isinstance(name, str) and isinstance(value, str)
        },
    }


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list | tuple) else ()
