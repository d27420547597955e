"""The link from a model's image to its cache: a referrer in the image's repository.

Distribution-spec 1.1, "Listing Referrers"; where a registry lists none, "Referrers Tag Schema": an index under a tag
that is made of the image's digest. OCI has no way to change such an index without a race, so each link has a tag too,
from which its entry can be made again (docs/reference/artifact-format.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from glowplug.core.oci import (
    INDEX_TYPE,
    MANIFEST_TYPE,
    Descriptor,
    Document,
    decode,
    encode,
    parse_descriptor,
)
from glowplug.core.record import ANNOTATION_FORMAT, ANNOTATION_MODEL, ANNOTATION_VERSION, FORMAT
from glowplug.core.reference import Reference, parse_reference
from glowplug.core.target import Target, target_from_annotations
from glowplug.errors import IntegrityError, UsageError

LINK_TYPE = "application/vnd.glowplug.link.v1+json"
ANNOTATION_CACHE = "dev.glowplug.link.cache"
ANNOTATION_CREATED = "org.opencontainers.image.created"

# Image-spec, "Guidance for an Empty Descriptor": an artifact without config and without content has this as both.
EMPTY_CONTENT = b"{}"
EMPTY = Descriptor(
    "application/vnd.oci.empty.v1+json",
    "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
    len(EMPTY_CONTENT),
)

_TAG_MARK = ".glowplug-"
_TARGET_DIGITS = 12


class Link(NamedTuple):
    """What an image says about one of its caches.

    Attributes:
        cache: the artifact, by tag and digest.
        target: what it is for.
        model, version: which model it belongs to.
        created: when the artifact was made (UTC, RFC 3339); the latest link for a target counts.
    """

    cache: Reference
    target: Target
    model: str
    version: str
    created: str

    def annotations(self) -> dict[str, str]:
        """Return what the link's manifest says; whoever lists referrers is told it without reading any."""
        return {
            ANNOTATION_FORMAT: str(FORMAT),
            ANNOTATION_MODEL: self.model,
            ANNOTATION_VERSION: self.version,
            ANNOTATION_CACHE: str(self.cache),
            "dev.glowplug.link.gpu-type": self.target.gpu_type,
            **self.target.to_annotations(),
            ANNOTATION_CREATED: self.created,
        }

    def document(self, subject: Descriptor) -> Document:
        """Return the referrer of an image's manifest; equal links give equal bytes."""
        plain = Descriptor(subject.media_type, subject.digest, subject.size_bytes)
        body = {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "artifactType": LINK_TYPE,
            "config": EMPTY.to_json(),
            "layers": [EMPTY.to_json()],
            "subject": plain.to_json(),
            "annotations": self.annotations(),
        }
        return Document(MANIFEST_TYPE, encode(body))


def link_to(cache: Reference, annotations: Mapping[str, str]) -> Link | None:
    """Return the link to an artifact whose manifest has these annotations; ``None`` when it is none of ours."""
    target = target_from_annotations(annotations)
    if annotations.get(ANNOTATION_FORMAT) != str(FORMAT) or target is None:
        return None
    model, version = annotations.get(ANNOTATION_MODEL, ""), annotations.get(ANNOTATION_VERSION, "")
    return Link(cache, target, model, version, annotations.get(ANNOTATION_CREATED, ""))


def read_links(entries: Iterable[Descriptor]) -> tuple[Link, ...]:
    """Return the links among referrers, the latest for each target, in the order of the targets.

    What is no link that this version can read is passed over: anyone with the right to push may have put it there.
    """
    latest: dict[str, Link] = {}
    for entry in entries:
        link = _read_link(entry)
        if link is None:
            continue
        key = target_key(link.target)
        if key not in latest or (latest[key].created, str(latest[key].cache)) < (
            link.created,
            str(link.cache),
        ):
            latest[key] = link
    return tuple(latest[key] for key in sorted(latest))


def _read_link(entry: Descriptor) -> Link | None:
    if entry.artifact_type != LINK_TYPE:
        return None
    try:
        cache = parse_reference(entry.annotations.get(ANNOTATION_CACHE, ""))
    except UsageError:
        return None
    return link_to(cache, entry.annotations)


def target_key(target: Target) -> str:
    """Return a short text that two targets do not share; a GPU type would be too long for the tag, and leaves out torch."""
    return hashlib.sha256(encode(target.to_json())).hexdigest()[:_TARGET_DIGITS]


def referrers_tag(subject: str) -> str:
    """Return the tag of the index of everything that refers to a digest, where the registry lists none."""
    return subject.replace(":", "-")


def link_tag(subject: str, target: Target) -> str:
    """Return the tag of an image's link for a target."""
    return f"{link_tags_start(subject)}{target_key(target)}"


def link_tags_start(subject: str) -> str:
    """Return how the tags of an image's links start."""
    return f"{referrers_tag(subject)}{_TAG_MARK}"


def referrer_entry(document: Document) -> Descriptor | None:
    """Return the entry that an index of referrers has of a link's manifest; ``None`` for another document."""
    try:
        body = decode(document.raw)
    except ValueError:
        return None
    if not isinstance(body, dict) or body.get("artifactType") != LINK_TYPE:
        return None
    said = {"mediaType": document.media_type, "digest": document.digest, "size": len(document.raw)}
    entry = {**said, "artifactType": LINK_TYPE, "annotations": body.get("annotations")}
    return parse_descriptor(entry, document.digest)


def merged_referrers(current: Document | None, links: Iterable[Descriptor]) -> Document:
    """Return the index of referrers with these links in it; everything that other tools wrote stays as it is.

    Args:
        current: what the tag holds now.
        links: entries of links, one per target; they replace those of the same targets.

    Raises:
        IntegrityError: what is there now is no index, and is not ours to throw away.
    """
    empty: dict[str, Any] = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": []}
    body = empty if current is None else _index(current)
    entries = sorted(links, key=lambda entry: entry.digest)
    replaced = {target_from_annotations(entry.annotations) for entry in entries}
    kept = [entry for entry in body["manifests"] if not _is_replaced(entry, replaced)]
    try:
        raw = encode({**body, "manifests": kept + [entry.to_json() for entry in entries]})
    except UnicodeEncodeError as error:
        raise IntegrityError("an index of referrers holds text that nobody can write again") from error
    return Document(INDEX_TYPE, raw)


def _is_replaced(entry: Any, targets: set[Target | None]) -> bool:
    try:
        found = parse_descriptor(entry, "an index of referrers")
    except IntegrityError:
        return False
    target = target_from_annotations(found.annotations)
    return found.artifact_type == LINK_TYPE and target is not None and target in targets


def _index(document: Document) -> dict[str, Any]:
    try:
        body = decode(document.raw)
    except ValueError:
        body = None
    if document.media_type != INDEX_TYPE or not isinstance(body, dict):
        raise IntegrityError(f"{document.digest}, which should list an image's referrers, is no OCI index")
    entries = body.get("manifests")
    if not isinstance(entries, list):
        raise IntegrityError(f"index {document.digest} lists no manifests")
    return {**body, "manifests": entries}
