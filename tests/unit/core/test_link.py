from __future__ import annotations

import json

import pytest

from glowplug.core.link import (
    EMPTY,
    EMPTY_CONTENT,
    LINK_TYPE,
    Link,
    link_tag,
    link_tags_start,
    merged_referrers,
    read_links,
    referrer_entry,
    referrers_tag,
)
from glowplug.core.oci import INDEX_TYPE, MANIFEST_TYPE, Descriptor, Document, Platform, digest_of, encode
from glowplug.core.reference import is_tag, parse_reference
from glowplug.errors import IntegrityError
from unit.samples import CPU, H100

DIGEST = "sha256:" + "ab" * 32
SUBJECT = Descriptor(MANIFEST_TYPE, "sha256:" + "1" * 64, 7)
CACHE = f"ghcr.io/acme/flux-cache:v3-h100-80gb-hbm3-sm90@{DIGEST}"
LINK = Link(parse_reference(CACHE), H100, "flux-schnell", "v3", "2026-01-02T03:04:05Z")
CPU_LINK = LINK._replace(target=CPU)
FOREIGN = {
    "mediaType": MANIFEST_TYPE,
    "digest": "sha256:" + "9" * 64,
    "size": 5,
    "artifactType": "application/vnd.example.sbom",
    "annotations": {"org.example": "kept"},
    "data": "e30=",
}


def entry(link=LINK):
    found = referrer_entry(link.document(SUBJECT))
    assert found is not None
    return found


def index(*entries, **others):
    return Document(INDEX_TYPE, encode({"schemaVersion": 2, "manifests": list(entries), **others}))


def test_a_link_is_an_artifact_that_refers_to_the_image():
    body = json.loads(LINK.document(SUBJECT).raw)
    assert body["artifactType"] == LINK_TYPE
    assert body["subject"] == {"mediaType": MANIFEST_TYPE, "digest": SUBJECT.digest, "size": 7}
    assert body["config"] == body["layers"][0] == EMPTY.to_json()
    assert body["annotations"]["dev.glowplug.link.cache"] == CACHE
    assert body["annotations"]["dev.glowplug.link.gpu-type"] == "h100-80gb-hbm3-sm90"
    assert (EMPTY.digest, EMPTY.size_bytes) == (digest_of(EMPTY_CONTENT), len(EMPTY_CONTENT))


def test_the_platform_of_an_index_entry_is_not_part_of_the_link():
    listed = SUBJECT._replace(platform=Platform("linux", "amd64"), annotations={"a": "b"})
    assert LINK.document(listed) == LINK.document(SUBJECT)


def test_a_link_is_read_from_the_list_of_referrers_alone():
    assert read_links([entry()]) == (LINK,)
    assert referrer_entry(Document(MANIFEST_TYPE, encode(FOREIGN))) is None
    assert referrer_entry(Document(MANIFEST_TYPE, b"[")) is None


def test_the_latest_link_for_a_target_counts():
    newer = LINK._replace(version="v4", created="2026-02-01T00:00:00Z")
    for order in ([LINK, newer, CPU_LINK], [CPU_LINK, newer, LINK]):
        assert set(read_links(map(entry, order))) == {newer, CPU_LINK}


@pytest.mark.parametrize(
    "change",
    [
        {"dev.glowplug.link.cache": ""},
        {"dev.glowplug.link.cache": "ghcr.io/acme/flux-cache"},
        {"dev.glowplug.link.cache": "../../etc/passwd"},
        {"dev.glowplug.format": "2"},
        {"dev.glowplug.target.torch": None},
    ],
)
def test_a_link_that_cannot_be_read_is_passed_over(change):
    good = entry()
    annotations = {k: v for k, v in {**good.annotations, **change}.items() if v is not None}
    assert read_links([good._replace(annotations=annotations)]) == ()
    assert read_links([good._replace(artifact_type="application/vnd.example")]) == ()


def test_tags_are_those_of_the_referrers_tag_schema():
    assert referrers_tag(SUBJECT.digest) == "sha256-" + "1" * 64
    tag = link_tag(SUBJECT.digest, H100)
    assert is_tag(tag)
    assert tag.startswith(link_tags_start(SUBJECT.digest))
    assert tag != link_tag(SUBJECT.digest, H100._replace(torch="2.12.0"))


def test_the_first_link_makes_the_index():
    body = json.loads(merged_referrers(None, [entry()]).raw)
    assert body == {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [entry().to_json()]}
    assert body["manifests"][0]["artifactType"] == LINK_TYPE


def test_what_other_tools_wrote_stays():
    current = index(FOREIGN, annotations={"a": "b"}, unknown=[1])
    body = json.loads(merged_referrers(current, [entry()]).raw)
    assert body["manifests"] == [FOREIGN, entry().to_json()]
    assert (body["annotations"], body["unknown"]) == ({"a": "b"}, [1])


def test_a_link_replaces_the_one_for_its_target_only():
    newer = LINK._replace(created="2026-02-01T00:00:00Z")
    current = index(entry().to_json(), entry(CPU_LINK).to_json(), FOREIGN)
    body = json.loads(merged_referrers(current, [entry(newer)]).raw)
    assert body["manifests"] == [entry(CPU_LINK).to_json(), FOREIGN, entry(newer).to_json()]


def test_merging_again_changes_nothing():
    once = merged_referrers(index(FOREIGN), [entry(), entry(CPU_LINK)])
    assert merged_referrers(once, [entry(CPU_LINK), entry()]) == once


@pytest.mark.parametrize(
    "hostile",
    [
        {"artifactType": LINK_TYPE, "annotations": {"dev.glowplug.target.os": []}},
        {**FOREIGN, "artifactType": LINK_TYPE, "annotations": 7},
        {**FOREIGN, "digest": "nonsense"},
        None,
        7,
    ],
)
def test_entries_that_cannot_be_read_stay_too(hostile):
    body = json.loads(merged_referrers(index(hostile), [entry()]).raw)
    assert body["manifests"] == [hostile, entry().to_json()]


@pytest.mark.parametrize(
    "current",
    [
        Document(MANIFEST_TYPE, encode({"schemaVersion": 2})),
        Document(INDEX_TYPE, b"["),
        Document(INDEX_TYPE, b"[]"),
        Document(INDEX_TYPE, b'{"manifests":{}}'),
        Document(INDEX_TYPE, b"[" * 100_000),
        Document(INDEX_TYPE, b'{"manifests":["\\ud800"]}'),
    ],
)
def test_what_is_no_index_is_not_overwritten(current):
    with pytest.raises(IntegrityError):
        merged_referrers(current, [entry()])
