import subprocess
import sys

import pytest

from glowplug.core.oci import INDEX_TYPE, MANIFEST_TYPE, Document, Platform, encode, parse_index
from glowplug.core.reference import LayoutRepository
from glowplug.errors import NotFoundError, UnavailableError
from glowplug.registry.cache_index import current_digest, find_entries, make_index, update_index
from glowplug.registry.layout import Layout
from unit.artifacts import make_document
from unit.samples import CPU, H100

ARM = CPU._replace(machine="aarch64", device_arch="neon")


@pytest.fixture
def layout(tmp_path):
    return Layout(LayoutRepository(str(tmp_path / "layout")))


def put(layout, version, target, tag=None):
    document = make_document(target, version)
    layout.put_document(document, tag or f"{version}-{target.gpu_type}")
    return document


def tags_of(layout, version):
    return [entry.tag for entry in find_entries(layout, version)]


def test_a_version_s_artifacts_are_found_by_their_tags(layout):
    put(layout, "v1", H100)
    put(layout, "v1", CPU)
    put(layout, "v2", CPU)
    assert tags_of(layout, "v1") == ["v1-cpu-x86_64-avx512_vnni", "v1-h100-80gb-hbm3-sm90"]
    assert tags_of(layout, "v2") == ["v2-cpu-x86_64-avx512_vnni"]
    assert tags_of(layout, "v") == []


def test_a_version_that_begins_like_another_is_another(layout):
    for version in ("v1", "v1-rc", "v1-rc-2", "v1.1"):
        put(layout, version, H100)
    for version in ("v1", "v1-rc", "v1-rc-2", "v1.1"):
        assert tags_of(layout, version) == [f"{version}-h100-80gb-hbm3-sm90"]


def test_a_version_that_no_tag_can_hold_is_told_from_its_tag(layout):
    put(layout, "release/1", H100, "release-1-h100-80gb-hbm3-sm90")
    assert tags_of(layout, "release/1") == ["release-1-h100-80gb-hbm3-sm90"]
    assert tags_of(layout, "release-1") == []


def test_what_is_no_artifact_of_the_version_is_left_out(layout):
    put(layout, "v1", H100)
    put(layout, "v1", H100, "v1-copied-elsewhere")
    put(layout, "v2", CPU, "v1-cpu-x86_64-avx512_vnni")
    layout.put_document(make_index("m", "v1", []), "v1-index")
    layout.put_document(Document(MANIFEST_TYPE, encode({"schemaVersion": 2, "layers": [], "config": {
        "mediaType": "x/y", "digest": "sha256:" + "0" * 64, "size": 1}})), "v1-someones-image")  # fmt: skip
    layout.put_document(Document("application/vnd.docker.distribution.manifest.v2+json", b"{}"), "v1-docker")
    assert tags_of(layout, "v1") == ["v1-h100-80gb-hbm3-sm90"]


def test_a_tag_that_is_deleted_meanwhile_is_left_out(layout):
    put(layout, "v1", H100)

    class Deleting(Layout):
        def tags(self):
            return ["v1-cpu-x86_64-avx512_vnni", *super().tags()]

    deleting = Deleting(LayoutRepository(str(layout._root)))
    assert [entry.tag for entry in find_entries(deleting, "v1")] == ["v1-h100-80gb-hbm3-sm90"]


def test_an_entry_lets_anyone_choose(layout):
    h100, arm = put(layout, "v1", H100), put(layout, "v1", ARM)
    document, entries = update_index(layout, "flux-schnell", "v1")
    assert layout.resolve("v1") == document
    index = parse_index(document)
    assert [entry.digest for entry in index.manifests] == [arm.digest, h100.digest]
    assert [entry.platform for entry in index.manifests] == [
        Platform("linux", "arm64", "neon"),
        Platform("linux", "amd64", "sm_90"),
    ]
    assert index.manifests[1].annotations.items() >= H100.to_annotations().items()
    assert [entry.descriptor for entry in entries] == list(index.manifests)
    assert document.media_type == INDEX_TYPE
    assert index.annotations == {
        "dev.glowplug.format": "1",
        "dev.glowplug.model.name": "flux-schnell",
        "dev.glowplug.model.version": "v1",
        "org.opencontainers.image.version": "v1",
    }


def test_the_same_artifacts_give_the_same_index(tmp_path):
    digests = set()
    for name, targets in (("a", [H100, CPU, ARM]), ("b", [ARM, H100, CPU])):
        layout = Layout(LayoutRepository(str(tmp_path / name)))
        for target in targets:
            put(layout, "v1", target)
        digests.add(update_index(layout, "m", "v1")[0].digest)
    assert len(digests) == 1


def test_an_index_that_is_right_is_not_written_again(layout):
    class Counting(Layout):
        written = 0

        def put_document(self, document, tag):
            self.written += 1
            super().put_document(document, tag)

    counting = Counting(LayoutRepository(str(layout._root)))
    put(layout, "v1", H100)
    update_index(counting, "m", "v1")
    update_index(counting, "m", "v1")
    assert counting.written == 1
    put(layout, "v1", CPU)
    document, _ = update_index(counting, "m", "v1")
    assert counting.written == 2
    assert current_digest(layout, "v1") == document.digest


def test_an_artifact_that_is_deleted_leaves_the_index(layout, tmp_path):
    put(layout, "v1", H100)
    put(layout, "v1", CPU)
    update_index(layout, "m", "v1")
    layout.put_document(
        make_document(CPU, "v2"), "v1-cpu-x86_64-avx512_vnni"
    )  # something else has its tag now
    document, entries = update_index(layout, "m", "v1")
    assert [entry.tag for entry in entries] == ["v1-h100-80gb-hbm3-sm90"]
    assert layout.resolve("v1") == document


def test_no_artifact_no_index(layout):
    with pytest.raises(NotFoundError, match="no artifact of version v1"):
        update_index(layout, "m", "v1")
    assert current_digest(layout, "v1") is None


def test_a_tag_that_someone_else_keeps_writing(layout):
    class Contested(Layout):
        def put_document(self, document, tag):
            super().put_document(make_document(), tag)

    put(layout, "v1", H100)
    with pytest.raises(UnavailableError, match="the index v1"):
        update_index(Contested(LayoutRepository(str(layout._root))), "m", "v1")


JOB = """
import sys
from glowplug.registry.cache_index import update_index
from glowplug.core.reference import LayoutRepository
from glowplug.registry.layout import Layout
from unit.artifacts import make_document
from unit.samples import H100

layout = Layout(LayoutRepository(sys.argv[1]))
target = H100._replace(device_name=f"NVIDIA {sys.argv[2]}")
sys.stdin.read()  # all start together
layout.put_document(make_document(target, "v1"), f"v1-{target.gpu_type}")
update_index(layout, "m", "v1")
"""


def test_jobs_that_finish_together_lose_nothing(layout):
    jobs = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"import sys; sys.path[:0] = {sys.path!r}\n{JOB}",
                layout._root,
                f"gpu{number}",
            ],
            stdin=subprocess.PIPE,
        )
        for number in range(8)
    ]
    for job in jobs:
        job.stdin.close()
    assert [job.wait() for job in jobs] == [0] * 8
    listed = parse_index(layout.resolve("v1")).manifests
    assert sorted(entry.annotations["dev.glowplug.target.device.name"] for entry in listed) == [
        f"NVIDIA gpu{number}" for number in range(8)
    ]
