"""What has to be so before a container is worth making: the image is there, fits the machine, and has room."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from glowplug.core.image import ModelImage
from glowplug.core.image_spec import ImageSpec
from glowplug.engine.docker.client import Client
from glowplug.engine.docker.explanations import Refusal, explain
from glowplug.engine.docker.image import image_from_json
from glowplug.errors import EngineError, NotFoundError

# A container's own files: caches, and what the model downloads.
_ROOM_FOR_A_RUN_BYTES = 1024**3
_GIB = 1024**3
# Storage drivers that copy the whole image for each container.
_COPYING_DRIVERS = ("vfs",)


def find_image(client: Client, spec: ImageSpec, on_progress: Callable[[str], None]) -> ModelImage:
    """Return the image, pulled when the spec's ``pull`` says so.

    Raises:
        NotFoundError: there is none.
        DeniedError, UnavailableError: its registry refuses, or cannot be reached.
        EngineError: it is made for another architecture, or there is no room for it.
    """
    image = None if spec.pull == "always" else _inspect(client, spec.reference)
    if image is None and spec.pull != "never":
        _pull(client, spec.reference, on_progress)
        image = _inspect(client, spec.reference)
    if image is None:
        raise NotFoundError(
            f"the Docker engine at {client.host} has no image {spec.reference}",
            hint="build or pull it there first, or let run.docker.pull be missing",
        )
    if image.architecture and client.architecture not in ("", image.architecture):
        raise EngineError(
            f"{spec.reference} is made for {image.architecture}, but the Docker engine's machine is {client.architecture}",
            hint="build the image for that architecture, or build on a machine of the image's",
        )
    return image


def require_room(client: Client, image: ModelImage) -> None:
    """Stop when a container certainly has no room; nothing is known about the disk of an engine elsewhere.

    Raises:
        EngineError: naming the folder.
    """
    with client.asking("say how it is", image.reference):
        info = client.api.info()
    root = data_root(client, info)
    needed = _ROOM_FOR_A_RUN_BYTES
    if info.get("Driver") in _COPYING_DRIVERS:
        needed += image.size_bytes
    if root is not None and (free := shutil.disk_usage(root).free) < needed:
        raise EngineError(
            f"the Docker engine's disk has {free / _GIB:.1f} GiB left at {root}, "
            f"and a container of {image.reference} needs {needed / _GIB:.1f} GiB",
            hint="'docker system df' shows what takes the room, 'docker image prune' removes unused images",
        )


def data_root(client: Client, info: Mapping[str, Any]) -> Path | None:
    """Return where the engine keeps its images, ``None`` when that is not on a disk that we see."""
    root = Path(info.get("DockerRootDir") or "/nonexistent")
    # A socket that was handed into a container leads to an engine whose folders are not the container's.
    return root if client.host.startswith("unix://") and root.is_dir() else None


def _inspect(client: Client, reference: str) -> ModelImage | None:
    import docker.errors  # noqa: PLC0415

    with client.asking("look for the image", reference):
        try:
            return image_from_json(reference, client.api.inspect_image(reference))
        except docker.errors.ImageNotFound:
            return None


def _pull(client: Client, reference: str, on_progress: Callable[[str], None]) -> None:
    with client.asking("pull the image", reference, pulling=True):
        info = client.api.info()
        root = data_root(client, info)
        free = shutil.disk_usage(root).free if root else None
        events = client.api.pull(reference, stream=True, decode=True)
        follow_pull(reference, events, on_progress, free)


def follow_pull(
    reference: str,
    events: Iterable[Mapping[str, Any]],
    on_progress: Callable[[str], None],
    free_bytes: int | None,
) -> None:
    """Watch a pull to its end, and give up as soon as it cannot fit.

    Args:
        reference: the image.
        events: the engine's progress (Docker Engine API, ImageCreate).
        on_progress: gets a few words now and then.
        free_bytes: room on the engine's disk before the pull, where it is known.

    Raises:
        DeniedError, NotFoundError, UnavailableError, EngineError: what the engine says went wrong.
    """
    size_bytes: dict[str, int] = {}
    done_bytes: dict[str, int] = {}
    for event in events:
        if "error" in event:
            said = event["error"]
            raise explain(
                Refusal(
                    "pull the image",
                    reference,
                    said if isinstance(said, str) else json.dumps(said),
                    pulling=True,
                )
            )
        detail, layer = event.get("progressDetail") or {}, event.get("id", "")
        if event.get("status") != "Downloading" or not detail.get("total"):
            continue
        size_bytes[layer], done_bytes[layer] = detail["total"], detail.get("current", 0)
        total_bytes = sum(size_bytes.values())
        # Compressed layers alone; unpacked they are larger still.
        if free_bytes is not None and total_bytes > free_bytes:
            raise EngineError(
                f"{reference} does not fit on the Docker engine's disk: its layers have more than "
                f"{total_bytes / _GIB:.1f} GiB, and {free_bytes / _GIB:.1f} GiB are left",
                hint="'docker system df' shows what takes the room, 'docker image prune' removes unused images",
            )
        on_progress(f"{sum(done_bytes.values()) / _GIB:.2f} of {total_bytes / _GIB:.2f} GiB")
