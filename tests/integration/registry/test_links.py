"""Links from images to caches, in registries with and without a list of referrers of their own."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from glowplug.core.link import LINK_TYPE, Link, read_links, referrers_tag
from glowplug.core.oci import INDEX_TYPE, MANIFEST_TYPE, Descriptor, digest_of, encode
from glowplug.core.reference import RegistryRepository, parse_reference
from glowplug.errors import DeniedError, UnavailableError
from glowplug.registry.links import attach_link
from glowplug.registry.referrers import find_referrers
from glowplug.registry.sink import open_sink_without_extras
from glowplug.registry.source import open_source
from integration.registry.artifacts import Connect
from integration.registry.images import push_image
from integration.registry.scripted import Answer, Request, Serve
from integration.services import RegistryService
from unit.samples import CPU, H100

SUBJECT = Descriptor(MANIFEST_TYPE, "sha256:" + "1" * 64, 7)
CACHE = parse_reference("ghcr.io/acme/flux-cache:v3-h100@sha256:" + "ab" * 32)
LINK = Link(CACHE, H100, "flux-schnell", "v3", "2026-01-02T03:04:05Z")


def links_of(repository: RegistryRepository, subject: str) -> tuple[tuple[Link, ...], bool]:
    with open_source(repository) as source:
        found = find_referrers(source, subject, LINK_TYPE)
    return read_links(found.entries), found.by_tag


def test_a_registry_without_a_list(
    connect: Connect, registry: RegistryService, own_name: str, tmp_path: Path
) -> None:
    """Distribution 2.8 has none: clients keep it under a tag."""
    repository = registry.repository(own_name)
    with connect(repository) as sink:
        image = push_image(sink, tmp_path, "v3")
        assert links_of(repository, image.digest) == ((), True)
        assert attach_link(sink, image.descriptor(), LINK)
        assert not attach_link(sink, image.descriptor(), LINK)
        assert attach_link(sink, image.descriptor(), LINK._replace(target=CPU))
        assert sink.tags()[-1] == "v3"
        assert len(sink.tags()) == 4
        assert sink.resolve(referrers_tag(image.digest)).media_type == INDEX_TYPE
    links, by_tag = links_of(repository, image.digest)
    assert by_tag
    assert {link.target for link in links} == {H100, CPU}


def test_builds_that_finish_together_lose_nothing(
    registry: RegistryService, own_name: str, tmp_path: Path
) -> None:
    repository = registry.repository(own_name)
    with open_sink_without_extras(repository) as sink:
        image = push_image(sink, tmp_path, "v3")
    start = threading.Barrier(6)

    def build(number: int) -> None:
        link = LINK._replace(target=H100._replace(device_name=f"NVIDIA gpu{number}"))
        with open_sink_without_extras(repository) as sink:
            start.wait()
            attach_link(sink, image.descriptor(), link)

    builds = [threading.Thread(target=build, args=(number,)) for number in range(6)]
    for thread in builds:
        thread.start()
    for thread in builds:
        thread.join()
    links, _ = links_of(repository, image.digest)
    assert {link.target.device_name for link in links} == {f"NVIDIA gpu{n}" for n in range(6)}


class ListingRegistry:
    """A scripted registry that lists referrers itself, as the specification says; no real one with a list is at hand."""

    def __init__(self, page: int = 100) -> None:
        self.manifests: dict[str, bytes] = {}
        self.page = page

    def __call__(self, request: Request) -> Answer:
        path, _, _ = request.path.partition("?")
        name = path.rpartition("/")[2]
        if "/referrers/" in path:
            return self._list(request)
        if "/manifests/" in path and request.method == "PUT":
            self.manifests[name] = request.body
            return Answer(201, headers={"OCI-Subject": SUBJECT.digest})
        if "/manifests/" in path:
            raw = self.manifests.get(name)
            return Answer(404) if raw is None else Answer(200, raw, {"Content-Type": MANIFEST_TYPE})
        return Answer(200)  # every blob is there

    def _list(self, request: Request) -> Answer:
        parts = urlsplit(request.path)
        start = int(parse_qs(parts.query).get("from", ["0"])[0])
        subject = parts.path.rpartition("/")[2]
        entries = []
        for raw in self.manifests.values():
            body = json.loads(raw)
            if body.get("subject", {}).get("digest") == subject:
                said = {"mediaType": MANIFEST_TYPE, "digest": digest_of(raw), "size": len(raw)}
                entries.append(
                    {**said, "artifactType": body["artifactType"], "annotations": body["annotations"]}
                )
        shown = entries[start : start + self.page]
        headers = {"Content-Type": INDEX_TYPE}
        if start + self.page < len(entries):
            headers["Link"] = f'<{parts.path}?from={start + self.page}>; rel="next"'
        return Answer(200, encode({"schemaVersion": 2, "manifests": shown}), headers)


@pytest.mark.parametrize("page", [1, 100])
def test_a_registry_that_lists_referrers_itself_gets_no_tags(
    connect: Connect, serve: Serve, page: int
) -> None:
    registry = ListingRegistry(page)
    script = serve(registry)
    with connect(script.repository()) as sink:
        assert attach_link(sink, SUBJECT, LINK)
        assert not attach_link(sink, SUBJECT, LINK)
        assert attach_link(sink, SUBJECT, LINK._replace(target=CPU))
    assert all(name.startswith("sha256:") for name in registry.manifests)
    links, by_tag = links_of(script.repository(), SUBJECT.digest)
    assert not by_tag
    assert {link.target for link in links} == {H100, CPU}
    asked = next(r.path for r in script.requests if "/referrers/" in r.path)
    assert parse_qs(urlsplit(asked).query) == {"artifactType": [LINK_TYPE]}


def test_a_registry_that_lists_referrers_shows_old_links_and_the_latest_counts(
    connect: Connect, serve: Serve
) -> None:
    script = serve(ListingRegistry())
    later = LINK._replace(version="v4", created="2026-03-01T00:00:00Z")
    with connect(script.repository()) as sink:
        assert attach_link(sink, SUBJECT, LINK)
        assert attach_link(sink, SUBJECT, later)
        assert not attach_link(sink, SUBJECT, later)
    assert links_of(script.repository(), SUBJECT.digest) == ((later,), False)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(404),
        Answer(404, b"<html>", {"Content-Type": "text/html"}),
        Answer(405),
        Answer(400),
        Answer(200, b"<html>", {"Content-Type": "text/html"}),
    ],
)
def test_what_registries_without_a_list_answer(serve: Serve, answer: Answer) -> None:
    script = serve(lambda request: answer if "/referrers/" in request.path else Answer(404))
    assert links_of(script.repository(), SUBJECT.digest) == ((), True)
    assert script.requests[-1].path == f"/v2/acme/cache/manifests/{referrers_tag(SUBJECT.digest)}"


def test_a_list_without_an_end(serve: Serve) -> None:
    page = Answer(
        200,
        encode({"schemaVersion": 2, "manifests": []}),
        {"Content-Type": INDEX_TYPE, "Link": '<?again>; rel="next"'},
    )
    script = serve(lambda _: page)
    with pytest.raises(UnavailableError, match="no end"):
        links_of(script.repository(), SUBJECT.digest)
    assert len(script.requests) == 100


def test_without_the_right_to_read(serve: Serve) -> None:
    script = serve(lambda _: Answer(403))
    with pytest.raises(DeniedError, match="list what refers to"):
        links_of(script.repository(), SUBJECT.digest)


def test_without_the_right_to_push(connect: Connect, serve: Serve) -> None:
    script = serve(lambda request: Answer(404 if request.method in ("GET", "HEAD") else 403))
    with connect(script.repository()) as sink, pytest.raises(DeniedError):
        attach_link(sink, SUBJECT, LINK)
