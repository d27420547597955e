from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from glowplug.core.image import ModelImage, run_settings
from glowplug.core.reference import (
    LayoutRepository,
    Reference,
    RegistryRepository,
    parse_image_reference,
)
from glowplug.core.spec import version_flaw, version_tag
from glowplug.errors import UsageError

DIGEST = "sha256:" + "ab" * 32
ID = "sha256:" + "cd" * 32


def image(digest=None, **settings):
    return ModelImage("ghcr.io/acme/flux:v3", ID, digest, "amd64", 0, **settings)


def test_an_image_in_a_registry_is_named_by_its_digest_there():
    found = image(f"ghcr.io/acme/flux@{DIGEST}")
    assert found.identity == DIGEST
    assert found.version == "sha256-abababababababab"
    assert found.published == Reference(RegistryRepository("ghcr.io", "acme/flux"), None, DIGEST)
    assert found.recorded == f"ghcr.io/acme/flux@{DIGEST}"


def test_an_image_that_was_only_built_is_named_by_its_configuration():
    found = image()
    assert (found.identity, found.version) == (ID, "sha256-cdcdcdcdcdcdcdcd")
    assert found.published is None
    assert found.recorded == ID


def test_a_tag_holds_its_version():
    version = image(f"ghcr.io/acme/flux@{DIGEST}").version
    assert version_flaw(version) is None
    assert version_tag(version) == version


@pytest.mark.parametrize(
    ("text", "host", "name", "tag", "digest"),
    [
        ("flux", "docker.io", "library/flux", "latest", None),
        ("flux:v3", "docker.io", "library/flux", "v3", None),
        ("acme/flux", "docker.io", "acme/flux", "latest", None),
        (f"flux@{DIGEST}", "docker.io", "library/flux", None, DIGEST),
        ("localhost/flux:v3", "localhost", "flux", "v3", None),
        ("127.0.0.1:5000/a/flux", "127.0.0.1:5000", "a/flux", "latest", None),
        (f"ghcr.io/acme/flux:v3@{DIGEST}", "ghcr.io", "acme/flux", "v3", DIGEST),
    ],
)
def test_names_of_images_are_read_as_docker_reads_them(text, host, name, tag, digest):
    assert parse_image_reference(text) == Reference(RegistryRepository(host, name), tag, digest)


def test_a_layout_folder_is_one_too():
    assert parse_image_reference("oci:a/b:v1") == Reference(LayoutRepository("a/b"), "v1")


@pytest.mark.parametrize("text", ["", "Flux:v3", "acme/flux:", "acme//flux", "flux@sha256:12", "flux:a:b"])
def test_what_no_image_can_be_called(text):
    with pytest.raises(UsageError):
        parse_image_reference(text)


def test_settings_of_a_cog_image():
    settings = run_settings(
        {
            "Entrypoint": ["/sbin/tini", "--"],
            "Cmd": ["python", "-m", "cog.server.http"],
            "WorkingDir": "/src",
            "User": "1000:1000",
            "Env": ["PATH=/usr/bin", "EMPTY=", "A=b=c", "NVIDIA_VISIBLE_DEVICES=all"],
            "Labels": {"run.cog.version": "0.16.0"},
        }
    )
    found = image(**settings)
    assert found.has_init
    assert found.expects_gpu
    assert found.command == ("python", "-m", "cog.server.http")
    assert found.workdir == PurePosixPath("/src")
    assert found.user == "1000:1000"
    assert found.env["A"] == "b=c"
    assert found.env["EMPTY"] == ""
    assert found.labels == {"run.cog.version": "0.16.0"}


@pytest.mark.parametrize(
    "config",
    [
        None,
        [],
        "text",
        {},
        {"Entrypoint": None, "Cmd": None, "Env": None, "Labels": None, "WorkingDir": None, "User": None},
        {"Entrypoint": 1, "Cmd": {}, "Env": "A=b", "Labels": [], "WorkingDir": [], "User": 7},
        {"Entrypoint": [1], "Env": [None, "=x"], "Labels": {"a": 1}, "WorkingDir": ""},
    ],
)
def test_what_is_of_another_type_reads_as_absent(config):
    assert image(**run_settings(config)) == image()
