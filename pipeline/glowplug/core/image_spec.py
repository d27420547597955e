"""What ``run.image`` and ``run.docker`` of the spec say: the image a model runs in, and how its containers are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Pull = Literal["missing", "always", "never"]
# ``None`` asks for no GPU, a number for as many, a tuple for devices by index, UUID, MIG or CDI name.
Gpus = Literal["all"] | int | tuple[str, ...] | None


@dataclass(frozen=True)
class Volume:
    """A folder that containers see besides their image.

    Attributes:
        source: a path on the engine's machine, or the name of a volume; a relative path starts with ``.`` and is
            relative to the spec file.
        target: absolute path in the container.
        read_only: whether the model may only read it.
    """

    source: str
    target: str
    read_only: bool = False

    @property
    def is_path(self) -> bool:
        """Whether the source is a path."""
        return self.source.startswith(("/", "."))


@dataclass(frozen=True)
class ImageSpec:
    """The image a model runs in.

    Attributes:
        reference: as ``docker run`` takes it.
        gpus: which GPUs a container gets.
        entrypoint: what replaces the image's own; ``None`` keeps it, an empty one removes it.
        init: whether a container gets the engine's init process; ``None`` for where the image brings none.
        network: ``host``, ``none``, ``bridge`` or a network's name; ``None`` for the engine's default.
        pull: when the image is pulled.
        shm_size_bytes: size of ``/dev/shm``; ``None`` for the engine's default.
        volumes: what else containers see.
    """

    reference: str
    gpus: Gpus = None
    entrypoint: tuple[str, ...] | None = None
    init: bool | None = None
    network: str | None = None
    pull: Pull = "missing"
    shm_size_bytes: int | None = None
    volumes: tuple[Volume, ...] = ()
