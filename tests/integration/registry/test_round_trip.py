"""The same artifact through a registry and through a layout folder, ours and other tools' hands."""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import oras.provider
import pytest

from glowplug.core.oci import parse_index, parse_manifest
from glowplug.core.reference import LayoutRepository, Repository
from glowplug.errors import IntegrityError, NotFoundError
from glowplug.registry.sink import open_sink
from glowplug.registry.source import open_source, read_blob
from integration.registry.artifacts import Connect, MakeArtifact, index_of
from integration.services import RegistryService, find_program


@pytest.fixture(params=["registry", "layout"])
def repository(
    request: pytest.FixtureRequest, registry: RegistryService, own_name: str, tmp_path: Path
) -> Repository:
    if request.param == "layout":
        return LayoutRepository(str(tmp_path / "layout"))
    return registry.repository(own_name)


def test_what_is_pushed_is_pulled(
    connect: Connect, repository: Repository, make_artifact: MakeArtifact
) -> None:
    artifact = make_artifact()
    with connect(repository) as sink:
        sink.check_push()
        artifact.push(sink, "v1", "also")
        assert sink.tags() == ["also", "v1"]
    with open_source(repository) as source:
        assert source.resolve("v1") == artifact.document
        assert source.resolve("also") == artifact.document
        assert source.resolve(artifact.document.digest) == artifact.document
        for descriptor, path in artifact.blobs:
            assert read_blob(source, descriptor) == path.read_bytes()


def test_an_index_and_its_children(
    connect: Connect, repository: Repository, make_artifact: MakeArtifact
) -> None:
    one, two = make_artifact(b"one"), make_artifact(b"two")
    index = index_of(one.document, two.document)
    with connect(repository) as sink:
        one.push(sink, "v1-a")
        two.push(sink)
        sink.put_document(two.document, None)
        sink.put_document(index, "v1")
    with open_source(repository) as source:
        assert source.tags() == ["v1", "v1-a"]
        entries = parse_index(source.resolve("v1")).manifests
        assert [entry.platform.variant for entry in entries if entry.platform] == ["sm_80", "sm_81"]
        children = [source.resolve(entry.digest) for entry in entries]
        assert children == [one.document, two.document]
        assert [parse_manifest(child).layers[0].size_bytes for child in children] == [3, 3]


def test_a_tag_moves_and_the_others_stay(
    connect: Connect, repository: Repository, make_artifact: MakeArtifact
) -> None:
    old, new = make_artifact(b"old"), make_artifact(b"new")
    with connect(repository) as sink:
        old.push(sink, "v1", "keep")
        new.push(sink, "v1")
        assert sink.resolve("v1") == new.document
        assert sink.resolve("keep") == old.document
        assert sink.tags() == ["keep", "v1"]


def test_what_is_not_there(connect: Connect, repository: Repository, make_artifact: MakeArtifact) -> None:
    artifact = make_artifact()
    with open_source(repository) as source:
        assert source.tags() == []
        with pytest.raises(NotFoundError, match="v1"):
            source.resolve("v1")
    with connect(repository) as sink:
        assert not sink.has_blob(artifact.layer.digest)
        artifact.push(sink, "v1")
        assert sink.has_blob(artifact.layer.digest)
        with pytest.raises(NotFoundError, match="sha256:00"):
            sink.resolve("sha256:" + "00" * 32)
        missing = type(artifact.layer)(artifact.layer.media_type, "sha256:" + "00" * 32, 1)
        with pytest.raises(NotFoundError, match="sha256:00"):
            read_blob(sink, missing)


@pytest.mark.parametrize("held", [b"same length", b"a longer file", b"short", b""])
def test_a_file_that_is_not_what_the_descriptor_says_is_refused(
    connect: Connect, repository: Repository, make_artifact: MakeArtifact, held: bytes
) -> None:
    descriptor, path = make_artifact(b"what is due").blobs[1]
    path.write_bytes(held)
    with connect(repository) as sink:
        with pytest.raises(IntegrityError, match=descriptor.digest):
            sink.put_blob(descriptor, path)
        assert not sink.has_blob(descriptor.digest)


def test_skopeo_copies_a_layout_to_a_registry_and_back(
    registry: RegistryService, make_artifact: MakeArtifact, tmp_path: Path
) -> None:
    skopeo = find_program("skopeo", package="skopeo")
    there, back = LayoutRepository(str(tmp_path / "there")), LayoutRepository(str(tmp_path / "back"))
    remote = registry.repository("skopeo/copy")
    artifact = make_artifact(_gzip(b"a cache"))
    with open_sink(there) as sink:
        artifact.push(sink, "v1")

    def copy(*arguments: str) -> None:
        subprocess.run([skopeo, "--insecure-policy", "copy", "-q", *arguments], check=True)

    copy("--dest-tls-verify=false", f"{there}:v1", f"docker://{remote}:v1")
    with open_source(remote) as source:
        assert source.resolve("v1").digest == artifact.document.digest
    copy("--src-tls-verify=false", f"docker://{remote}:v1", f"{back}:v1")
    with open_source(back) as source:
        assert source.resolve("v1") == artifact.document
        assert read_blob(source, artifact.layer) == _gzip(b"a cache")
    with open_sink(back) as sink:  # a layout that skopeo made can be written on
        make_artifact(b"more").push(sink, "v2")
    copy("--dest-tls-verify=false", f"{back}:v2", f"docker://{remote}:v2")
    with open_source(remote) as source:
        assert source.tags() == ["v1", "v2"]


def test_oras_py_pulls_what_we_push(
    registry: RegistryService, make_artifact: MakeArtifact, tmp_path: Path
) -> None:
    repository = registry.repository("oras/pull")
    artifact = make_artifact(_tar_gz("cache.bin", b"a cache"), title="cache.bin")
    with open_sink(repository) as sink:
        artifact.push(sink, "v1")
    client = oras.provider.Registry(hostname=registry.host, insecure=True)
    client.pull(f"{repository}:v1", outdir=str(tmp_path / "out"))
    assert (tmp_path / "out" / "cache.bin").read_bytes() == b"a cache"


def test_a_large_blob_is_streamed_both_ways(
    connect: Connect, registry: RegistryService, own_name: str, make_artifact: MakeArtifact
) -> None:
    content = bytes(range(256)) * 4 * 10_000
    artifact = make_artifact(content)
    with connect(registry.repository(own_name)) as sink:
        artifact.push(sink, "v1")
        sizes: list[int] = []
        received = BytesIO()
        sink.copy_blob(artifact.layer, received, sizes.append)
    assert received.getvalue() == content
    assert len(sizes) > 1
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == len(content)


def _gzip(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def _tar_gz(name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()
