"""Writes the link from a model's image to a cache into the image's repository."""

from __future__ import annotations

import tempfile
from pathlib import Path

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
from glowplug.core.oci import Descriptor, Document
from glowplug.errors import NotFoundError, UnavailableError
from glowplug.registry.referrers import find_referrers
from glowplug.registry.sink import Sink
from glowplug.registry.source import Source

# More builds than this do not link to one image within the same second.
_MAX_ROUNDS = 20


def attach_link(sink: Sink, subject: Descriptor, link: Link) -> bool:
    """Make an image refer to a cache, in the place of an older link for the same target; return whether it did not yet.

    Args:
        sink: the image's repository.
        subject: the image's manifest; of an image for several platforms, the one in which the cache was made.
        link: where the cache is and what it is for.

    Raises:
        DeniedError: no right to push there.
        UnavailableError: the repository cannot be reached, or the list keeps changing.
        IntegrityError: what should list the referrers is something else.
    """
    document = link.document(subject)
    found = find_referrers(sink, subject.digest, LINK_TYPE)
    if link in read_links(found.entries):
        return False
    with tempfile.NamedTemporaryFile() as file:
        file.write(EMPTY_CONTENT)
        file.flush()
        sink.put_blob(EMPTY, Path(file.name))
    tag = link_tag(subject.digest, link.target) if found.by_tag else None
    sink.put_document(document, tag)
    if found.by_tag:
        _list_links(sink, subject.digest)
    return True


def _list_links(sink: Sink, subject: str) -> None:
    """Bring the index of an image's referrers up to date with the tags of its links.

    Another build may overwrite it from an older state. So it is read again after it was written, and written again
    until it holds every link that has a tag. Each build tags its link first; hence the last to write has all of them.
    """
    tag = referrers_tag(subject)
    for _ in range(_MAX_ROUNDS):
        links = _tagged_links(sink, subject)
        current = _current(sink, tag)
        merged = merged_referrers(current, links)
        if current is not None and merged.digest == current.digest:
            return
        sink.put_document(merged, tag)
    raise UnavailableError(
        f"the list of what refers to {subject} is not what was written to it, {_MAX_ROUNDS} times in a row",
        hint="see whether something else keeps writing that tag; then build again",
    )


def _tagged_links(source: Source, subject: str) -> list[Descriptor]:
    start = link_tags_start(subject)
    entries = []
    for tag in source.tags():
        document = _current(source, tag) if tag.startswith(start) else None
        entry = referrer_entry(document) if document is not None else None
        if entry is not None:
            entries.append(entry)
    return entries


def _current(source: Source, tag: str) -> Document | None:
    try:
        return source.resolve(tag)
    except NotFoundError:
        return None
