"""A model's image as the reference of its cache."""

import io
from dataclasses import replace
from types import SimpleNamespace

import pytest

from glowplug.boot.access import Access
from glowplug.boot.describe import describe
from glowplug.boot.fetch import fetch
from glowplug.boot.store import Store
from glowplug.build.image_link import link_image
from glowplug.core.link import Link, link_to
from glowplug.core.reference import LayoutRepository, Reference
from glowplug.errors import NoCompatibleTargetError, NotFoundError
from glowplug.registry.client import RegistrySource
from glowplug.registry.image import image_manifest, read_image
from glowplug.registry.links import attach_link
from glowplug.registry.options import DEFAULT
from glowplug.registry.sink import open_sink_without_extras
from glowplug.report.console import Console
from glowplug.report.inspect import inspect_text
from integration.registry.images import push_image, push_index
from unit.artifacts import make_sealed, make_session, publish
from unit.samples import CPU, H100


@pytest.fixture
def model(registry, tmp_path):
    """An image for two architectures, and an artifact in another repository."""
    name = f"linked/{tmp_path.name.replace('_', '-').lower()}"
    images, caches = registry.repository(f"{name}/image"), registry.repository(f"{name}/cache")
    folder = tmp_path / "build"
    folder.mkdir()
    with open_sink_without_extras(images) as sink:
        architectures = ("amd64", "arm64")
        documents = {a: push_image(sink, tmp_path, a, architecture=a) for a in architectures}
        index = push_index(sink, "v3", documents)
        image = read_image(sink, Reference(images, "v3"), "amd64")
    session = make_session(folder)
    sealed = make_sealed(replace(session, loaded=replace(session.loaded, image=image)))
    tag = f"v3-{H100.gpu_type}"
    with open_sink_without_extras(caches) as sink:
        publish(sink, sealed, tag)
    artifact = Reference(caches, tag, sealed.document.digest)
    return SimpleNamespace(
        reference=Reference(images, "v3"),
        image=image,
        artifact=artifact,
        sealed=sealed,
        index=index,
        documents=documents,
    )


def link(model, image=None, options=DEFAULT):
    """Link the image as a build does; return what was said."""
    said = io.StringIO()
    link_image(image or model.image, model.artifact, model.sealed.manifest, options, Console(said, {}))
    return said.getvalue()


def with_image(sealed, recorded):
    """The same artifact, as if it had been made in another image."""
    annotations = {**sealed.manifest.annotations, "dev.glowplug.image": recorded}
    return replace(sealed, manifest=sealed.manifest._replace(annotations=annotations))


def fetch_to(folder, reference, host=H100, access=None):
    said = io.StringIO()
    fetched = fetch(reference, host, folder, access or Access(), Console(said, {}))
    return fetched, said.getvalue()


def test_an_image_stands_for_the_cache_that_was_made_in_it(model, tmp_path):
    said = link(model)
    assert f"{model.documents['amd64'].digest} is linked to {model.artifact}" in said
    assert link(model) == ""
    fetched, said = fetch_to(tmp_path / "place", model.reference)
    assert fetched.digest == model.sealed.document.digest
    # Where updates of what was fetched go.
    assert fetched.reference == model.artifact._replace(digest=None)
    assert (tmp_path / "place" / "inductor").is_dir()
    assert f"{model.reference} is linked to {model.artifact}" in said


@pytest.mark.parametrize("name", ["index", "platform"])
def test_the_image_may_be_named_by_digest(model, tmp_path, name):
    link(model)
    document = model.index if name == "index" else model.documents["amd64"]
    reference = Reference(model.reference.repository, None, document.digest)
    assert fetch_to(tmp_path / "place", reference)[0].digest == model.sealed.document.digest


def test_an_image_without_a_link_is_no_artifact(model, tmp_path):
    with pytest.raises(NotFoundError, match="is not a glowplug artifact"):
        fetch_to(tmp_path / "place", model.reference)
    assert not (tmp_path / "place").exists()


def test_nothing_that_the_image_is_linked_to_fits(model, tmp_path):
    link(model)
    with pytest.raises(NoCompatibleTargetError, match=r"2\.13\.0\+cu130 ≠ 2\.12\.0"):
        fetch_to(tmp_path / "place", model.reference, H100._replace(torch="2.12.0"))


def test_another_architecture_has_links_of_its_own(model, tmp_path):
    link(model)
    with pytest.raises(NotFoundError, match="is not a glowplug artifact"):
        fetch_to(tmp_path / "place", model.reference, H100._replace(machine="aarch64"))


def test_a_tag_leads_on_to_what_servers_added(model, tmp_path):
    linked = model.artifact._replace(digest="sha256:" + "0" * 64)
    found = link_to(linked, model.sealed.manifest.annotations)
    with open_sink_without_extras(model.reference.repository) as sink:
        attach_link(sink, model.documents["amd64"].descriptor(), found)
    assert fetch_to(tmp_path / "place", model.reference)[0].digest == model.sealed.document.digest


@pytest.mark.parametrize("tag", ["gone", "of-another-torch"])
def test_what_was_linked_is_found_when_its_tag_leads_elsewhere(model, tmp_path, tag):
    (tmp_path / "other").mkdir()
    other = make_sealed(make_session(tmp_path / "other", H100._replace(torch="2.12.0")))
    with open_sink_without_extras(model.artifact.repository) as sink:
        publish(sink, other, "of-another-torch")
    found = link_to(model.artifact._replace(tag=tag), model.sealed.manifest.annotations)
    with open_sink_without_extras(model.reference.repository) as sink:
        attach_link(sink, model.documents["amd64"].descriptor(), found)
    assert fetch_to(tmp_path / "place", model.reference)[0].digest == model.sealed.document.digest


def test_a_registry_cannot_lead_to_a_folder_of_this_machine(model, tmp_path):
    elsewhere = Reference(LayoutRepository(str(tmp_path / "layout")), "v3")
    found = link_to(elsewhere, model.sealed.manifest.annotations)
    with open_sink_without_extras(model.reference.repository) as sink:
        attach_link(sink, model.documents["amd64"].descriptor(), found)
    with pytest.raises(NotFoundError, match="is not a glowplug artifact"):
        fetch_to(tmp_path / "place", model.reference)


def test_a_reference_to_an_artifact_costs_no_request_more(model, tmp_path, monkeypatch):
    asked = []
    request = RegistrySource.request
    monkeypatch.setattr(RegistrySource, "request", lambda *a: asked.append(a[2]) or request(*a))
    fetch_to(tmp_path / "place", model.artifact._replace(digest=None))
    assert [url.rpartition("/")[2] for url in asked] == [model.artifact.tag, model.sealed.document.digest]


def test_a_node_s_store_serves_a_linked_cache(model, tmp_path):
    link(model)
    access = Access(store=Store(tmp_path / "store"))
    fetch_to(tmp_path / "one", model.reference, access=access)
    # This registry keeps the list under a tag, which the store remembers.
    fetched, _ = fetch_to(tmp_path / "two", model.reference, access=access._replace(offline=True))
    assert fetched.digest == model.sealed.document.digest


def test_inspect_shows_what_an_image_is_linked_to(model):
    link(model)
    notes = []
    (described,) = describe(model.reference, DEFAULT, notes.append)
    assert described.digest == model.sealed.document.digest
    assert notes == [f"{model.reference} is linked to {model.artifact}"]


def test_a_login_is_not_sent_to_where_a_link_leads(model, private_registry, tmp_path, monkeypatch):
    """Whoever may push to the image's repository chooses the host."""
    monkeypatch.setenv("GLOWPLUG_USERNAME", "robot")
    monkeypatch.setenv("GLOWPLUG_PASSWORD", "correct horse")
    caches = private_registry.repository("linked/cache")
    with open_sink_without_extras(caches) as sink:
        publish(sink, model.sealed, model.artifact.tag)
    model.artifact = model.artifact._replace(repository=caches)
    found = link_to(model.artifact, model.sealed.manifest.annotations)
    assert isinstance(found, Link)
    with open_sink_without_extras(model.reference.repository) as sink:
        attach_link(sink, model.documents["amd64"].descriptor(), found)
    with pytest.raises(Exception, match="user name and a password"):
        fetch_to(tmp_path / "place", model.reference)
    assert fetch_to(tmp_path / "named", model.artifact)[0].digest == model.sealed.document.digest


def test_no_right_to_push_beside_the_image_is_one_warning(model, private_registry, monkeypatch):
    images = private_registry.repository("linked/image")
    monkeypatch.setenv("GLOWPLUG_USERNAME", "robot")
    monkeypatch.setenv("GLOWPLUG_PASSWORD", "correct horse")
    image = replace(model.image, digest=f"{images}@{model.index.digest}")
    model.sealed = with_image(model.sealed, image.recorded)
    (line,) = link(model, image).splitlines()
    assert line.startswith("warning: the image is not linked to the artifact: ")


@pytest.mark.parametrize("where", ["image", "artifact"])
def test_what_is_in_no_registry_is_not_linked(model, tmp_path, where):
    image = model.image if where == "artifact" else replace(model.image, digest=None)
    model.sealed = with_image(model.sealed, image.recorded)
    if where == "artifact":
        model.artifact = model.artifact._replace(repository=LayoutRepository(str(tmp_path / "layout")))
    assert link(model, image) == ""
    with open_sink_without_extras(model.reference.repository) as sink:
        assert sink.tags() == ["amd64", "arm64", "v3"]


def test_an_image_is_not_linked_to_what_was_made_in_another(model):
    other = replace(model.image, digest=f"{model.reference.repository}@{model.documents['arm64'].digest}")
    said = link(model, other)
    assert "was not made in" in said
    assert "--rebuild" in said
    with open_sink_without_extras(model.reference.repository) as sink:
        assert sink.tags() == ["amd64", "arm64", "v3"]


def test_an_artifact_says_in_which_image_it_was_made(model):
    (described,) = describe(model.artifact, DEFAULT, print)
    assert described.record.image == f"{model.reference.repository}@{model.index.digest}"
    assert described.manifest.annotations["dev.glowplug.image"] == described.record.image
    assert f"image    {described.record.image}" in inspect_text(model.artifact, [described])


def test_builds_for_several_targets_link_to_each(model, tmp_path):
    link(model)
    other = link_to(model.artifact, {**model.sealed.manifest.annotations, **CPU.to_annotations()})
    with open_sink_without_extras(model.reference.repository) as sink:
        subject = image_manifest(model.index, "amd64", "x")
        attach_link(sink, subject, other)
    assert fetch_to(tmp_path / "place", model.reference)[0].digest == model.sealed.document.digest
