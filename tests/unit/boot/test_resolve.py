import json

import pytest

from glowplug.boot.resolve import resolve
from glowplug.core.oci import (
    CONFIG_TYPE,
    INDEX_TYPE,
    LAYER_TYPE,
    MANIFEST_TYPE,
    Descriptor,
    Document,
    Index,
    Manifest,
    encode,
    parse_manifest,
)
from glowplug.core.reference import LayoutRepository, parse_reference
from glowplug.errors import IntegrityError, NoCompatibleTargetError, NotFoundError
from glowplug.registry.cache_index import make_index, update_index
from glowplug.registry.layout import Layout
from unit.artifacts import make_document
from unit.samples import CPU, H100


@pytest.fixture
def layout(tmp_path):
    return Layout(LayoutRepository(str(tmp_path / "layout")))


@pytest.fixture
def published(layout):
    """The manifests of one version, and their index, by tag."""
    documents = {}
    for target in (H100, CPU):
        documents[target] = make_document(target)
        layout.put_document(documents[target], f"v3-{target.gpu_type}")
    update_index(layout, "flux-schnell", "v3")
    return documents


def resolved(layout, selector, host):
    separator = "@" if selector.startswith("sha256:") else ":"
    return resolve(layout, parse_reference(f"oci:{layout._root}{separator}{selector}"), host)


@pytest.mark.parametrize("host", [H100, CPU])
def test_an_index_offers_what_fits_the_host(layout, published, host):
    found = resolved(layout, "v3", host)
    assert found.digest == published[host].digest
    assert found.manifest == parse_manifest(published[host])
    assert found.target == host
    assert str(found.trace[0]) == f"{host.gpu_type}: fits"
    assert len(found.trace) == 2


def test_one_artifact_can_be_named_by_tag_and_digest(layout, published):
    for selector in (f"v3-{CPU.gpu_type}", published[CPU].digest):
        found = resolved(layout, selector, CPU)
        assert found.digest == published[CPU].digest
        assert len(found.trace) == 1


def test_a_host_with_a_newer_libc_may_have_it(layout, published):
    host = H100._replace(libc="glibc-2.41")
    assert resolved(layout, "v3", host).target == H100


@pytest.mark.parametrize("selector", ["v3", f"v3-{H100.gpu_type}"])
def test_nothing_fits(layout, published, selector):
    with pytest.raises(NoCompatibleTargetError) as caught:
        resolved(layout, selector, H100._replace(torch="2.12.0+cu130"))
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("has nothing for this host (h100-80gb-hbm3-sm90)")
    assert lines[1] == "  h100-80gb-hbm3-sm90: torch 2.13.0+cu130 ≠ 2.12.0+cu130"
    assert len(lines) == (3 if selector == "v3" else 2)


def image(**annotations):
    config = Descriptor(CONFIG_TYPE, "sha256:" + "0" * 64, 2)
    return Manifest(config, (Descriptor(LAYER_TYPE, "sha256:" + "1" * 64, 3),), annotations).document()


@pytest.mark.parametrize(
    "document",
    [
        image(),
        image(**{"dev.glowplug.format": "1"}),
        image(**CPU.to_annotations()),
        Index((), {}).document(),
        Index((Descriptor(MANIFEST_TYPE, "sha256:" + "1" * 64, 3),), {}).document(),
        Document("application/vnd.docker.distribution.manifest.v2+json", b"{}"),
        make_index("m", "v3", []),
    ],
)
def test_someone_else_s_image_is_not_taken_for_an_artifact(layout, document):
    layout.put_document(document, "v3")
    with pytest.raises(NotFoundError, match="is not a glowplug artifact"):
        resolved(layout, "v3", CPU)


def test_an_entry_of_someone_else_s_is_passed_over(layout, published):
    foreign = Descriptor(MANIFEST_TYPE, "sha256:" + "1" * 64, 3, {"vnd.docker.reference.type": "attestation"})
    ours = published[CPU].descriptor(parse_manifest(published[CPU]).annotations)
    layout.put_document(Index((foreign, ours), {}).document(), "mixed")
    assert resolved(layout, "mixed", CPU).digest == published[CPU].digest


@pytest.mark.parametrize("found", ["2", "0", "", "1.0"])
def test_an_artifact_of_another_format(layout, found):
    layout.put_document(image(**CPU.to_annotations(), **{"dev.glowplug.format": found}), "v3")
    with pytest.raises(IntegrityError, match=f"has format '{found}'; this version reads 1") as caught:
        resolved(layout, "v3", CPU)
    assert "update glowplug" in caught.value.hint


@pytest.mark.parametrize("selector", ["v4", "sha256:" + "0" * 64])
def test_a_name_of_nothing(layout, published, selector):
    with pytest.raises(NotFoundError, match=selector):
        resolved(layout, selector, CPU)


def test_an_index_that_promises_another_target(layout, published):
    annotations = parse_manifest(published[CPU]).annotations
    lie = published[H100].descriptor(annotations)
    layout.put_document(Index((lie,), {}).document(), "lie")
    with pytest.raises(IntegrityError, match="is for another target than the index says") as caught:
        resolved(layout, "lie", CPU)
    assert caught.value.hint == "run glowplug index"


def test_an_entry_whose_manifest_is_gone(layout, published):
    annotations = parse_manifest(published[CPU]).annotations
    gone = Descriptor(MANIFEST_TYPE, "sha256:" + "7" * 64, 3, annotations)
    layout.put_document(Index((gone,), {}).document(), "gone")
    with pytest.raises(NotFoundError, match="7777"):
        resolved(layout, "gone", CPU)


def test_a_manifest_without_an_image_config(layout, published):
    body = json.loads(published[CPU].raw)
    body["config"]["mediaType"] = "application/vnd.oci.empty.v1+json"
    layout.put_document(Document(MANIFEST_TYPE, encode(body)), "v3")
    with pytest.raises(IntegrityError, match="has no image config"):
        resolved(layout, "v3", CPU)


@pytest.mark.parametrize(
    ("media_type", "raw"), [(MANIFEST_TYPE, b"{}"), (INDEX_TYPE, b"[]"), (INDEX_TYPE, b"[" * 100_000)]
)
def test_a_document_that_is_none(layout, media_type, raw):
    layout.put_document(Document(media_type, raw), "v3")
    with pytest.raises(IntegrityError):
        resolved(layout, "v3", CPU)
