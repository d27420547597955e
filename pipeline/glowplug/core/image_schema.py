"""The image in the ``run`` section of ``glowplug.yaml``, and how its containers are made."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import get_args

from glowplug.core.document import Problems, Section, describe
from glowplug.core.image_spec import Gpus, ImageSpec, Pull, Volume
from glowplug.core.interpolation import interpolate, interpolated
from glowplug.core.reference import RegistryRepository, parse_image_reference
from glowplug.errors import UsageError

DOCKER_KEYS = ("gpus", "entrypoint", "init", "network", "pull", "shm_size", "volumes")

_PULLS: tuple[Pull, ...] = get_args(Pull)
_UNITS = {"KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_SIZE = re.compile(r"([1-9][0-9]{0,8}) ?(KiB|MiB|GiB)")
# As dockerd has it (volume/names, RestrictedNamePattern).
_VOLUME_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+")
_ACCESS = {"": False, "rw": False, "ro": True}
_VOLUME_ADVICE = "write NAME:/PATH or ./PATH:/PATH, and :ro after it for a folder that is only read"


def parse_image(
    section: Section, problems: Problems, environ: Mapping[str, str], secrets: Collection[str]
) -> ImageSpec | None:
    """Read ``image`` and ``docker`` of the section ``run``; ``None`` when the model runs on this machine.

    A part that is wrong is noted in ``problems`` and stands in as an empty value.
    """
    if "image" not in section:
        if "docker" in section:
            section.add("docker", "says how containers of an image are made, but run.image names none")
        return None
    reference = _reference(section, environ, secrets)
    docker = section.mapping("docker", DOCKER_KEYS) if section.given("docker") else None
    if docker is None:
        return ImageSpec(reference)
    parser = _Parser(docker, problems)
    return ImageSpec(
        reference,
        gpus=parser.gpus(),
        entrypoint=parser.entrypoint(),
        init=parser.init(),
        network=docker.text("network"),
        pull=parser.pull(),
        shm_size_bytes=parser.shm_size_bytes(),
        volumes=parser.volumes(environ, secrets),
    )


def _reference(section: Section, environ: Mapping[str, str], secrets: Collection[str]) -> str:
    text = interpolated(section, "image", environ, secrets)
    if text is None:
        return ""
    try:
        if not isinstance(parse_image_reference(text).repository, RegistryRepository):
            section.add(
                "image", "is a layout folder, which a container engine cannot run; push it to a registry"
            )
    except UsageError as error:
        section.add("image", str(error))
    return text


class _Parser:
    def __init__(self, section: Section, problems: Problems) -> None:
        self._section = section
        self._problems = problems

    def gpus(self) -> Gpus:
        if not self._section.given("gpus"):
            return None
        value = self._section.value("gpus")
        if value == "all":
            return "all"
        if isinstance(value, list):
            names = tuple(self._texts("gpus"))
            if not value:
                self._section.add("gpus", "lists nothing; leave the key out for no GPU")
            return names
        if isinstance(value, str):
            self._section.add(
                "gpus", f"must be all, a number of GPUs or a list of their names, but is {describe(value)}"
            )
            return None
        return self._section.integer("gpus", 1)

    def entrypoint(self) -> tuple[str, ...] | None:
        return tuple(self._texts("entrypoint")) if self._section.items("entrypoint") is not None else None

    def init(self) -> bool | None:
        if not self._section.given("init"):
            return None
        value = self._section.value("init")
        if not isinstance(value, bool):
            self._section.add("init", f"must be true or false, but is {describe(value)}")
            return None
        return value

    def pull(self) -> Pull:
        text = self._section.text("pull")
        if text is not None and text not in _PULLS:
            self._section.add(
                "pull", f"must be {', '.join(_PULLS[:-1])} or {_PULLS[-1]}, but is {describe(text)}"
            )
        return text if text in _PULLS else ImageSpec.pull

    def shm_size_bytes(self) -> int | None:
        if isinstance(self._section.value("shm_size"), int):
            self._section.add("shm_size", "has no unit; write 8GiB or 512MiB")
            return None
        text = self._section.text("shm_size")
        match = _SIZE.fullmatch(text) if text is not None else None
        if text is not None and match is None:
            self._section.add("shm_size", f"must be a size such as 8GiB or 512MiB, but is {describe(text)}")
        return int(match[1]) * _UNITS[match[2]] if match else None

    def volumes(self, environ: Mapping[str, str], secrets: Collection[str]) -> tuple[Volume, ...]:
        volumes: dict[str, Volume] = {}
        for number, written in enumerate(self._texts("volumes")):
            path = f"{self._section.at('volumes')}[{number}]"
            text, flaws = interpolate(written, environ, secrets)
            volume, flaw = _volume(text)
            for message in flaws or ([flaw] if flaw else []):
                self._problems.add(path, message)
            if volume is not None and volume.target in volumes:
                self._problems.add(path, f"{volume.target} has a volume already")
            elif volume is not None:
                volumes[volume.target] = volume
        return tuple(volumes.values())

    def _texts(self, key: str) -> list[str]:
        """Return the texts of a list; what else is in it is a problem, and stands in as an empty text."""
        texts = []
        for number, value in enumerate(self._section.items(key) or ()):
            path = f"{self._section.at(key)}[{number}]"
            if not isinstance(value, str):
                self._problems.expected_text(path, value)
            elif not value.strip():
                self._problems.add(path, "is empty")
            texts.append(value if isinstance(value, str) else "")
        return texts


def _volume(text: str) -> tuple[Volume | None, str | None]:
    """Read ``SOURCE:TARGET[:ro]``, and say what is wrong with it."""
    source, _, rest = text.partition(":")
    target, _, access = rest.partition(":")
    volume = Volume(source, target.rstrip("/"), _ACCESS.get(access, False))
    if not text.strip():
        return None, None  # that was said already
    if source.startswith("~"):
        return None, f"{describe(text)}: '~' is not replaced; write ${{HOME}}"
    if not volume.is_path and not _VOLUME_NAME.fullmatch(source):
        return None, f"{describe(text)} names neither a path nor a volume; {_VOLUME_ADVICE}"
    if not volume.target.startswith("/"):
        return None, f"{describe(text)} has no absolute path in the container; {_VOLUME_ADVICE}"
    if access not in _ACCESS:
        return None, f"{describe(text)} ends in '{access}'; {_VOLUME_ADVICE}"
    return volume, None
