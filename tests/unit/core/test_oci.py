import json

import pytest

from glowplug.core.oci import (
    CONFIG_TYPE,
    INDEX_TYPE,
    LAYER_TYPE,
    MANIFEST_TYPE,
    MAX_DOCUMENT_BYTES,
    Descriptor,
    Document,
    Index,
    Manifest,
    Platform,
    digest_of,
    encode,
    parse_index,
    parse_manifest,
)
from glowplug.errors import IntegrityError

DIGEST = "sha256:" + "a" * 64
CONFIG = Descriptor(CONFIG_TYPE, "sha256:" + "c" * 64, 12)
LAYER = Descriptor(LAYER_TYPE, DIGEST, 345, {"org.opencontainers.image.title": "glowplug"})
MANIFEST = Manifest(CONFIG, (LAYER,), {"dev.glowplug.model.name": "flüx"})
INDEX = Index(
    (Descriptor(MANIFEST_TYPE, DIGEST, 678, {"a": "b"}, Platform("linux", "amd64", "sm_90")),), {"c": "d"}
)


def test_a_document_is_encoded_in_one_form():
    assert encode({"b": [1, 2.5, None, True], "a": "é"}) == '{"a":"é","b":[1,2.5,null,true]}'.encode()
    assert (
        MANIFEST.document().raw
        == (
            '{"annotations":{"dev.glowplug.model.name":"flüx"},'
            f'"config":{{"digest":"{CONFIG.digest}","mediaType":"{CONFIG_TYPE}","size":12}},'
            '"layers":[{"annotations":{"org.opencontainers.image.title":"glowplug"},'
            f'"digest":"{DIGEST}","mediaType":"{LAYER_TYPE}","size":345}}],'
            f'"mediaType":"{MANIFEST_TYPE}","schemaVersion":2}}'
        ).encode()
    )
    assert (
        INDEX.document().raw
        == (
            '{"annotations":{"c":"d"},"artifactType":"application/vnd.glowplug.index.v1+json",'
            f'"manifests":[{{"annotations":{{"a":"b"}},"digest":"{DIGEST}","mediaType":"{MANIFEST_TYPE}",'
            '"platform":{"architecture":"amd64","os":"linux","variant":"sm_90"},"size":678}],'
            f'"mediaType":"{INDEX_TYPE}","schemaVersion":2}}'
        ).encode()
    )


def test_what_was_encoded_is_read_again():
    assert parse_manifest(MANIFEST.document()) == MANIFEST
    assert parse_index(INDEX.document()) == INDEX
    assert parse_manifest(MANIFEST.document()).document().digest == MANIFEST.document().digest


def test_the_digest_is_over_the_bytes_as_they_came():
    raw = json.dumps(json.loads(MANIFEST.document().raw), indent=3).encode()
    document = Document(MANIFEST_TYPE, raw)
    assert document.digest == digest_of(raw) != MANIFEST.document().digest
    assert parse_manifest(document) == MANIFEST
    assert document.descriptor({"x": "y"}) == Descriptor(MANIFEST_TYPE, document.digest, len(raw), {"x": "y"})


def test_the_digest_is_sha256():
    assert digest_of(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_a_pull_transfers_config_and_layers():
    assert MANIFEST.size_bytes == 12 + 345


def changed(document, **changes):
    body = {**json.loads(document.raw), **changes}
    return encode({key: value for key, value in body.items() if value is not ...})


def descriptor(**changes):
    body = {"mediaType": LAYER_TYPE, "digest": DIGEST, "size": 1, **changes}
    return {key: value for key, value in body.items() if value is not ...}


@pytest.mark.parametrize("kind", [MANIFEST, INDEX])
@pytest.mark.parametrize(
    "change", [{"mediaType": ...}, {"annotations": ...}, {"annotations": None}, {"new": 1}]
)
def test_what_the_spec_leaves_open_is_accepted(kind, change):
    parse = parse_manifest if kind is MANIFEST else parse_index
    parse(Document("", changed(kind.document(), **change)))


def test_annotations_that_are_no_text_are_left_out():
    raw = changed(MANIFEST.document(), annotations={"a": 1, "b": "c", "d": None, "e": {}})
    assert parse_manifest(Document("", raw)).annotations == {"b": "c"}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"7",
        b"\xff\xfe",
        b"\x80",
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b"{} {}",
        b'{"schemaVersion":' + b"1" * 10_000 + b"}",
        b" " * (MAX_DOCUMENT_BYTES + 1),
        changed(MANIFEST.document(), schemaVersion=1),
        changed(MANIFEST.document(), schemaVersion=...),
        changed(MANIFEST.document(), mediaType="application/vnd.docker.distribution.manifest.v2+json"),
        changed(MANIFEST.document(), mediaType=None),
        changed(MANIFEST.document(), mediaType=[]),
        changed(MANIFEST.document(), layers=...),
        changed(MANIFEST.document(), layers={}),
        changed(MANIFEST.document(), layers="text"),
        changed(MANIFEST.document(), layers=[None]),
        changed(MANIFEST.document(), layers=[[]]),
        changed(MANIFEST.document(), config=...),
        changed(MANIFEST.document(), config="text"),
        INDEX.document().raw,
        *(
            changed(MANIFEST.document(), layers=[descriptor(**change)])
            for change in (
                {"digest": ...},
                {"digest": None},
                {"digest": 7},
                {"digest": "sha512:" + "0" * 128},
                {"digest": DIGEST.upper()},
                {"digest": DIGEST + "\n"},
                {"digest": "../../../etc/passwd"},
                {"mediaType": ...},
                {"mediaType": {}},
                {"size": ...},
                {"size": -1},
                {"size": True},
                {"size": "1"},
                {"size": 1.5},
                {"size": None},
            )
        ),
    ],
)
def test_a_hostile_manifest_is_refused(raw):
    document = Document(MANIFEST_TYPE, raw)
    with pytest.raises(IntegrityError, match=document.digest):
        parse_manifest(document)


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 200_000,
        MANIFEST.document().raw,
        changed(INDEX.document(), manifests=...),
        changed(INDEX.document(), manifests={}),
        changed(INDEX.document(), manifests=[descriptor(digest="")]),
    ],
)
def test_a_hostile_index_is_refused(raw):
    document = Document(INDEX_TYPE, raw)
    with pytest.raises(IntegrityError, match=document.digest):
        parse_index(document)


@pytest.mark.parametrize("platform", [None, "linux", [], {}, {"os": 7, "architecture": None}])
def test_a_strange_platform_does_not_matter(platform):
    entry = descriptor(mediaType=MANIFEST_TYPE, platform=platform)
    (found,) = parse_index(Document("", changed(INDEX.document(), manifests=[entry]))).manifests
    assert found.digest == DIGEST
