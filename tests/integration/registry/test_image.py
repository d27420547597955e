"""Reading what a registry says about a model's image."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

from glowplug.core.link import EMPTY
from glowplug.core.oci import CONFIG_TYPE, MANIFEST_TYPE, Descriptor, Document, digest_of, encode
from glowplug.core.reference import LayoutRepository, Reference
from glowplug.errors import IntegrityError, NotFoundError
from glowplug.registry.image import image_manifest, read_image
from glowplug.registry.layout import Layout
from glowplug.registry.sink import open_sink_without_extras
from glowplug.registry.source import open_source
from integration.registry.images import push_image, push_index
from integration.services import RegistryService


@pytest.fixture(params=["registry", "layout"])
def place(request: pytest.FixtureRequest, tmp_path: Path, own_name: str) -> Callable[[str], Reference]:
    """Name images in a real registry, and in a layout folder."""
    repository = (
        request.getfixturevalue("registry").repository(own_name)
        if request.param == "registry"
        else LayoutRepository(str(tmp_path / "layout"))
    )
    return lambda tag: Reference(repository, tag)


@pytest.mark.parametrize("docker", [False, True])
def test_an_image_of_one_platform(place: Callable[[str], Reference], tmp_path: Path, *, docker: bool) -> None:
    reference = place("v3")
    with open_sink_without_extras(reference.repository) as sink:
        document = push_image(sink, tmp_path, "v3", docker=docker)
    with open_source(reference.repository) as source:
        image = read_image(source, reference, "amd64")
    assert image.digest == f"{reference.repository}@{document.digest}"
    assert image.identity == document.digest
    assert image.published == Reference(reference.repository, None, document.digest)
    assert image.architecture == "amd64"
    assert image.size_bytes == len(b"layer of amd64")
    assert image.entrypoint == ("/sbin/tini", "--")
    assert image.workdir == PurePosixPath("/src")
    assert image.labels == {"run.cog.version": "0.16.0"}


@pytest.mark.parametrize("docker", [False, True])
def test_an_image_for_several_platforms(
    place: Callable[[str], Reference], tmp_path: Path, *, docker: bool
) -> None:
    reference = place("v3")
    attestation = {
        **Descriptor(MANIFEST_TYPE, "sha256:" + "0" * 64, 7).to_json(),
        "platform": {"os": "unknown", "architecture": "unknown"},
    }
    with open_sink_without_extras(reference.repository) as sink:
        images = {
            architecture: push_image(sink, tmp_path, architecture, architecture=architecture, docker=docker)
            for architecture in ("arm64", "amd64")
        }
        more = (
            (attestation,) if isinstance(reference.repository, LayoutRepository) else ()
        )  # a registry wants all of them
        index = push_index(sink, "v3", images, docker=docker, more=more)
    with open_source(reference.repository) as source:
        for architecture, document in images.items():
            image = read_image(source, reference, architecture)
            assert image.architecture == architecture
            assert image.identity == index.digest  # one version of the model, whatever it runs on
            assert image_manifest(index, architecture, "x").digest == document.digest
        with pytest.raises(NotFoundError, match="holds no image for linux/riscv64") as caught:
            read_image(source, reference, "riscv64")
    assert caught.value.hint == "it has linux/amd64, linux/arm64"


def test_the_plainest_variant_of_a_platform_is_taken() -> None:
    entries = [
        {
            **Descriptor(MANIFEST_TYPE, "sha256:" + digit * 64, 7).to_json(),
            "platform": {"os": "linux", "architecture": "amd64", "variant": variant},
        }
        for digit, variant in (("1", "v3"), ("2", ""), ("3", "v2"))
    ]
    index = Document(
        "application/vnd.oci.image.index.v1+json", encode({"schemaVersion": 2, "manifests": entries})
    )
    assert image_manifest(index, "amd64", "x").digest == "sha256:" + "2" * 64


def test_skopeo_makes_images_that_are_read(registry: RegistryService, tmp_path: Path, own_name: str) -> None:
    """What another tool copied in Docker's format."""
    repository = registry.repository(own_name)
    with open_sink_without_extras(repository) as sink:
        push_image(sink, tmp_path, "oci")
    subprocess.run(
        [
            *(
                "skopeo",
                "copy",
                "--quiet",
                "--format",
                "v2s2",
                "--src-tls-verify=false",
                "--dest-tls-verify=false",
            ),
            *(f"docker://{repository}:oci", f"docker://{repository}:docker"),
        ],
        check=True,
    )
    with open_source(repository) as source:
        document = source.resolve("docker")
        assert document.media_type == "application/vnd.docker.distribution.manifest.v2+json"
        image = read_image(source, Reference(repository, "docker"), "amd64")
    assert image.labels == {"run.cog.version": "0.16.0"}


def put_config(layout: Layout, folder: Path, raw: bytes, descriptor: Descriptor | None = None) -> None:
    path = folder / "config"
    path.write_bytes(raw)
    stored = Descriptor(CONFIG_TYPE, digest_of(raw), len(raw))
    layout.put_blob(stored, path)
    body = {"schemaVersion": 2, "config": (descriptor or stored).to_json(), "layers": []}
    layout.put_document(Document(MANIFEST_TYPE, encode(body)), "v3")


@pytest.mark.parametrize("raw", [b"[", b"[]", b"7", b"[" * 100_000, b"\xff"])
def test_a_config_that_is_none(tmp_path: Path, raw: bytes) -> None:
    repository = LayoutRepository(str(tmp_path / "layout"))
    put_config(Layout(repository), tmp_path, raw)
    with pytest.raises(IntegrityError, match=r"is not JSON|is no image config"):
        read_image(Layout(repository), Reference(repository, "v3"), "amd64")


def test_a_config_of_an_endless_size_is_not_read(tmp_path: Path) -> None:
    repository = LayoutRepository(str(tmp_path / "layout"))
    put_config(Layout(repository), tmp_path, b"{}", Descriptor(CONFIG_TYPE, "sha256:" + "0" * 64, 2**62))
    with pytest.raises(IntegrityError, match="larger than any config"):
        read_image(Layout(repository), Reference(repository, "v3"), "amd64")


def test_an_artifact_that_is_no_image(tmp_path: Path) -> None:
    repository = LayoutRepository(str(tmp_path / "layout"))
    put_config(Layout(repository), tmp_path, b"{}", EMPTY)
    with pytest.raises(NotFoundError, match="is no container image"):
        read_image(Layout(repository), Reference(repository, "v3"), "amd64")
