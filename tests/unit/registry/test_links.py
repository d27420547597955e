"""Links on a layout folder, which lists no referrers by itself, like many registries."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from glowplug.core.link import LINK_TYPE, Link, link_tag, read_links, referrers_tag
from glowplug.core.oci import INDEX_TYPE, MANIFEST_TYPE, Descriptor, Document, encode
from glowplug.core.reference import LayoutRepository, parse_reference
from glowplug.errors import IntegrityError, UnavailableError
from glowplug.registry.layout import Layout
from glowplug.registry.links import attach_link
from glowplug.registry.referrers import find_referrers
from unit.samples import CPU, H100

SUBJECT = Descriptor(MANIFEST_TYPE, "sha256:" + "1" * 64, 7)
CACHE = parse_reference("ghcr.io/acme/flux-cache:v3-h100@sha256:" + "ab" * 32)
LINK = Link(CACHE, H100, "flux-schnell", "v3", "2026-01-02T03:04:05Z")
TAG = referrers_tag(SUBJECT.digest)
FOREIGN = {"mediaType": MANIFEST_TYPE, "digest": "sha256:" + "9" * 64, "size": 5, "artifactType": "a/b"}


@pytest.fixture
def layout(tmp_path):
    return Layout(LayoutRepository(str(tmp_path / "layout")))


def links_of(layout):
    found = find_referrers(layout, SUBJECT.digest, LINK_TYPE)
    assert found.by_tag
    return read_links(found.entries)


def test_an_image_without_links(layout):
    assert links_of(layout) == ()


def test_a_link_is_found_again_and_its_manifest_is_tagged(layout):
    assert attach_link(layout, SUBJECT, LINK)
    assert links_of(layout) == (LINK,)
    assert layout.resolve(link_tag(SUBJECT.digest, H100)) == LINK.document(SUBJECT)
    assert layout.has_blob("sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a")


def test_attaching_twice_writes_once(layout):
    attach_link(layout, SUBJECT, LINK)
    before = sorted(layout._root.rglob("*")), layout.resolve(TAG)
    assert not attach_link(layout, SUBJECT, LINK)
    assert (sorted(layout._root.rglob("*")), layout.resolve(TAG)) == before


def test_a_later_build_replaces_the_link_of_its_target(layout):
    cpu = LINK._replace(target=CPU)
    attach_link(layout, SUBJECT, LINK)
    attach_link(layout, SUBJECT, cpu)
    later = LINK._replace(created="2026-03-01T00:00:00Z", version="v4")
    attach_link(layout, SUBJECT, later)
    assert set(links_of(layout)) == {later, cpu}
    assert len(json.loads(layout.resolve(TAG).raw)["manifests"]) == 2


def test_images_do_not_share_links(layout):
    attach_link(layout, SUBJECT, LINK)
    assert find_referrers(layout, "sha256:" + "2" * 64, LINK_TYPE).entries == ()


def test_what_other_tools_attached_stays(layout):
    layout.put_document(
        Document(INDEX_TYPE, encode({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [FOREIGN]})),
        TAG,
    )
    attach_link(layout, SUBJECT, LINK)
    assert json.loads(layout.resolve(TAG).raw)["manifests"][0] == FOREIGN
    assert links_of(layout) == (LINK,)


def test_an_entry_that_was_lost_comes_back_with_the_next_link(layout):
    attach_link(layout, SUBJECT, LINK)
    layout.put_document(Document(INDEX_TYPE, encode({"schemaVersion": 2, "manifests": [FOREIGN]})), TAG)
    attach_link(layout, SUBJECT, LINK._replace(target=CPU))
    assert {link.target for link in links_of(layout)} == {H100, CPU}


def test_a_tag_that_holds_something_else_is_left_alone(layout):
    someone = Document(MANIFEST_TYPE, encode({"schemaVersion": 2}))
    layout.put_document(someone, TAG)
    with pytest.raises(IntegrityError, match="no OCI index"):
        attach_link(layout, SUBJECT, LINK)
    assert layout.resolve(TAG) == someone


def test_a_list_that_someone_else_keeps_writing(layout):
    class Contested(Layout):
        def put_document(self, document, tag):
            if tag == TAG:
                document = Document(INDEX_TYPE, encode({"schemaVersion": 2, "manifests": [FOREIGN]}))
            super().put_document(document, tag)

    with pytest.raises(UnavailableError, match="20 times in a row"):
        attach_link(Contested(LayoutRepository(str(layout._root))), SUBJECT, LINK)


def test_an_older_list_that_is_written_meanwhile_is_mended(layout):
    """Another build read the list before our link was in it, and writes it after."""
    other = LINK._replace(target=CPU)

    class Overtaken(Layout):
        overtaken = False

        def put_document(self, document, tag):
            super().put_document(document, tag)
            if tag == TAG and not self.overtaken:
                self.overtaken = True
                stale = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [FOREIGN]}
                super().put_document(other.document(SUBJECT), link_tag(SUBJECT.digest, CPU))
                super().put_document(Document(INDEX_TYPE, encode(stale)), TAG)

    attach_link(Overtaken(LayoutRepository(str(layout._root))), SUBJECT, LINK)
    assert set(links_of(layout)) == {LINK, other}
    assert json.loads(layout.resolve(TAG).raw)["manifests"][0] == FOREIGN


JOB = """
import sys
from glowplug.core.reference import LayoutRepository
from glowplug.registry.layout import Layout
from glowplug.registry.links import attach_link
from unit.registry.test_links import LINK, SUBJECT
from unit.samples import H100

link = LINK._replace(target=H100._replace(device_name=f"NVIDIA {sys.argv[2]}"))
layout = Layout(LayoutRepository(sys.argv[1]))
sys.stdin.read()  # all start together
attach_link(layout, SUBJECT, link)
"""


def test_builds_that_finish_together_lose_nothing(layout):
    layout.check_push()
    source = f"import sys; sys.path[:0] = {sys.path!r}\n{JOB}"
    jobs = [
        subprocess.Popen([sys.executable, "-c", source, layout._root, f"gpu{n}"], stdin=subprocess.PIPE)
        for n in range(6)
    ]
    for job in jobs:
        job.stdin.close()
    assert [job.wait() for job in jobs] == [0] * 6
    assert {link.target.device_name for link in links_of(layout)} == {f"NVIDIA gpu{n}" for n in range(6)}
