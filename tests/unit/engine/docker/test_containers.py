from pathlib import Path, PurePosixPath

import pytest

from glowplug.core.image import ModelImage
from glowplug.core.image_spec import ImageSpec, Volume
from glowplug.engine.docker.containers import Command, container_config

FOLDER = Path("/project")
COMMAND = Command(("python", "x.py"), {"A": "1", "B": "x=y"}, {"label": "owner"})


def image(**changes):
    return ModelImage("flux:v3", "sha256:12", None, "amd64", 1, **changes)


def config(spec, command=COMMAND, **changes):
    return container_config(image(**changes), spec, FOLDER, command)


def test_the_smallest_spec_leaves_everything_to_the_image_and_the_engine():
    assert config(ImageSpec("flux:v3")) == {
        "Image": "sha256:12",
        "Cmd": ["python", "x.py"],
        "Env": ["A=1", "B=x=y"],
        "Labels": {"label": "owner"},
        "HostConfig": {
            "Init": True,
            "Mounts": [],
            "DeviceRequests": [],
            "LogConfig": {"Type": "json-file"},
        },
    }


def test_the_specs_words_reach_the_engine():
    spec = ImageSpec(
        "flux:v3",
        network="host",
        shm_size_bytes=1024,
        volumes=(Volume("./w", "/weights", read_only=True), Volume("/data", "/data"), Volume("hub", "/hub")),
    )
    host = config(spec)["HostConfig"]
    assert (host["NetworkMode"], host["ShmSize"]) == ("host", 1024)
    assert [tuple(mount.values()) for mount in host["Mounts"]] == [
        ("bind", "/project/w", "/weights", True),
        ("bind", "/data", "/data", False),
        ("volume", "hub", "/hub", False),
    ]


def test_user_and_folder_are_the_commands():
    made = config(ImageSpec("flux:v3"), Command((), {}, {}, PurePosixPath("/src/x"), "65534:65534"))
    assert (made["WorkingDir"], made["User"]) == ("/src/x", "65534:65534")


@pytest.mark.parametrize(("entrypoint", "sent"), [((), [""]), (("tini", "--"), ["tini", "--"])])
def test_an_entrypoint_is_taken_away_or_replaced(entrypoint, sent):
    assert config(ImageSpec("flux:v3", entrypoint=entrypoint))["Entrypoint"] == sent


@pytest.mark.parametrize(
    ("own", "wanted", "given"),
    [
        (("/sbin/tini", "--"), None, False),
        (("/sbin/tini", "--"), True, True),
        (("/entrypoint.sh",), None, True),
        ((), None, True),
        ((), False, False),
    ],
)
def test_an_init_is_added_where_the_image_has_none(own, wanted, given):
    made = config(ImageSpec("flux:v3", init=wanted), entrypoint=own)
    assert made["HostConfig"]["Init"] is given


def test_an_init_is_added_when_the_images_own_is_taken_away():
    made = config(ImageSpec("flux:v3", entrypoint=()), entrypoint=("/sbin/tini", "--"))
    assert made["HostConfig"]["Init"] is True
