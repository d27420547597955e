"""An artifact that is not what it should be: never unpacked, whoever changed it, and wherever."""

from __future__ import annotations

from typing import Any

import pytest

from integration.bad_input.artifact import Artifact, Change, damage
from integration.bad_input.project import Project
from integration.services import RegistryService

PARTS = ["index", "manifest", "config", "first layer", "last layer"]


def refuses(project: Project, reference: str, code: int, *words: str) -> None:
    """Neither fetched nor, when asked to be strict, started; nothing at the destination."""
    project.glowplug("fetch", reference, "--dest", "out").refused(code, *words)
    project.glowplug("run", reference, "--dest", "out", "--strict", "--", "true").refused(code, *words)
    assert not (project.folder / "out").exists()
    assert project.leftovers() == []


@pytest.mark.parametrize("how", ["one bit", "shorter", "longer", "empty"])
@pytest.mark.parametrize("part", PARTS)
def test_damage_in_a_layout_folder(project: Project, artifact: Artifact, part: str, how: str) -> None:
    digest = artifact.part(part)
    damage(artifact.blob(digest), how)
    refuses(project, "oci:./cache:v1", 20, digest)


@pytest.mark.parametrize("part", PARTS)
def test_damage_in_a_registrys_storage(
    project: Project, built: Artifact, registry: RegistryService, part: str
) -> None:
    repository = built.push_to(registry, f"tampered/{part.replace(' ', '-')}")
    digest = built.part(part)
    before = registry.blob(digest).read_bytes()
    try:
        damage(registry.blob(digest), "one bit")
        refuses(project, f"{repository}:v1", 20, repository if part == "index" else digest)
    finally:
        registry.blob(digest).write_bytes(before)  # the storage is shared


@pytest.mark.parametrize("part", ["manifest", "config", "last layer"])
def test_a_part_that_is_gone(project: Project, artifact: Artifact, part: str) -> None:
    digest = artifact.part(part)
    artifact.blob(digest).unlink()
    refuses(project, "oci:./cache:v1", 12, digest)


def test_a_damaged_artifact_is_replaced_on_request(project: Project, artifact: Artifact) -> None:
    damage(artifact.blob(artifact.part("config")), "one bit")
    outcome = project.build("--rebuild")
    assert outcome.code == 0, outcome.stderr
    assert outcome.said("warning: the published artifact is damaged, and is replaced"), outcome.stderr
    fetched = project.glowplug("fetch", "oci:./cache:v1", "--dest", "out")
    assert fetched.code == 0, fetched.stderr
    assert project.leftovers() == []


def test_a_build_does_not_take_a_damaged_manifest_for_its_own(project: Project, artifact: Artifact) -> None:
    damage(artifact.blob(artifact.digest), "one bit")
    project.build().refused(20, artifact.digest, "--rebuild")
    assert not project.model_ran
    project.model("raise ValueError('it runs')")
    project.build("--rebuild").refused(30, "it runs")


def set_record(path: str, value: Any) -> Change:
    def change(record: dict[str, Any]) -> None:
        *parents, last = path.split("/")
        for name in parents:
            record = record[name]
        record[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (set_record("format", 99), ["format 99", "update glowplug"]),
        (set_record("format", None), ["format None"]),
        (set_record("contract/LD_PRELOAD", "evil.so"), ["would set", "LD_PRELOAD"]),
        (set_record("contract/PYTHONPATH", "evil"), ["PYTHONPATH"]),
        (set_record("contract/TRITON_PTXAS_PATH", "evil"), ["TRITON_PTXAS_PATH"]),
        (set_record("contract/TORCHINDUCTOR_X", "1\nLD_PRELOAD=evil.so"), ["TORCHINDUCTOR_X"]),
        (set_record("contract/TORCHINDUCTOR_X\nLD_PRELOAD", "evil.so"), ["TORCHINDUCTOR_X"]),
        (set_record("contract/TORCHINDUCTOR_X\0", "1"), ["TORCHINDUCTOR_X"]),
        (set_record("contract/ATEN_CPU_CAPABILITY", "avx2\0"), ["ATEN_CPU_CAPABILITY"]),
        (set_record("contract", []), ["cannot be read"]),
        (set_record("target/torch", "1.0"), ["another target"]),
        (set_record("target", {}), ["which target"]),
        (set_record("proof/cold", None), ["run report"]),
        (set_record("kinds/inductor/files", 1e400), ["cannot be read"]),
        (set_record("proof/cold/ready_at_s", 10**400), ["run report"]),
    ],
)
def test_a_record_that_cannot_be_meant(
    project: Project, artifact: Artifact, change: Change, words: list[str]
) -> None:
    artifact.forge(record=change)
    refuses(project, "oci:./cache:v1", 20, *words)
    project.glowplug("inspect", "oci:./cache:v1").refused(20, *words)


def test_a_config_that_nests_without_end(project: Project, artifact: Artifact) -> None:
    artifact.forge(record=lambda record: record.clear())
    artifact.forge(manifest=lambda manifest: manifest["annotations"].update({"dev.glowplug.format": "1"}))
    raw = b"[" * 100_000
    artifact.blob(artifact.part("config")).write_bytes(raw)
    refuses(project, "oci:./cache:v1", 20)
    (artifact.folder / "index.json").write_bytes(raw)
    refuses(project, "oci:./cache:v1", 20, "index.json")


def test_an_index_entry_for_another_target(project: Project, artifact: Artifact) -> None:
    artifact.forge(manifest=set_record("annotations/dev.glowplug.target.torch", "1.0"))
    honest = artifact.record["target"]["torch"]
    artifact.forge_index(set_record("annotations/dev.glowplug.target.torch", honest))
    refuses(project, "oci:./cache:v1", 20, artifact.digest, "another target than the index says")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (set_record("layers", []), ["layers"]),
        (set_record("layers", [{}]), ["descriptor"]),
        (set_record("layers", None), ["lists no layers"]),
        (set_record("config/mediaType", "application/json"), ["has no image config"]),
        (set_record("config/size", 2**40), ["larger than any config"]),
        (set_record("config/digest", "sha256:../../../etc/passwd"), ["descriptor"]),
        (set_record("schemaVersion", 1), ["schemaVersion"]),
    ],
)
def test_a_manifest_that_cannot_be_meant(
    project: Project, artifact: Artifact, change: Change, words: list[str]
) -> None:
    artifact.forge(manifest=change)
    refuses(project, "oci:./cache:v1", 20, *words)


def test_an_artifact_of_a_later_format(project: Project, artifact: Artifact) -> None:
    artifact.forge(manifest=set_record("annotations/dev.glowplug.format", "2"))
    refuses(project, "oci:./cache:v1", 20, "format", "update glowplug")
    refuses(project, f"oci:./cache:{artifact.tag}", 20, "format", "update glowplug")


def test_an_image_that_is_no_artifact(project: Project, artifact: Artifact) -> None:
    image = artifact.manifest
    image["annotations"] = {"org.opencontainers.image.title": "the model itself"}
    artifact.point_to("image", image)
    refuses(project, "oci:./cache:image", 12, "not a glowplug artifact")
    project.glowplug("inspect", "oci:./cache:image").refused(12, "not a glowplug artifact")


def test_tags_that_nothing_has(project: Project, artifact: Artifact, registry: RegistryService) -> None:
    refuses(project, "oci:./cache:v2", 12, "v2", "its tags: v1")
    refuses(project, "oci:./nowhere:v1", 12, "nowhere")
    refuses(project, f"oci:./cache@sha256:{'0' * 64}", 12, "0" * 64)
    refuses(project, f"{registry.host}/nowhere:v1", 12, "nowhere")
    project.glowplug("index", "oci:./cache", "v2").refused(12, "v2")
    assert not (project.folder / "nowhere").exists()
