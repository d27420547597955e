"""Several targets of one version: they stand beside each other, and each machine takes its own."""

from __future__ import annotations

from pathlib import Path

from glowplug.core.oci import parse_index
from integration.e2e.commands import Shell
from integration.e2e.conftest import Built, Targets
from integration.e2e.repositories import layout


def test_a_second_target_is_published_beside_the_first(square: Built, two_targets: Targets) -> None:
    result = two_targets.done.json
    other_tag = result["reference"].rpartition(":")[2]
    assert result["outcome"] == "published"
    assert other_tag.endswith(f"-{two_targets.other_isa}")
    repository = layout(two_targets.layout)
    assert repository.tags() == sorted(["v1.4", square.tag, other_tag])
    assert repository.resolve(square.tag).digest == square.digest
    assert result["targets"] == [tag.removeprefix("v1.4-") for tag in sorted([square.tag, other_tag])]
    entries = parse_index(repository.resolve("v1.4")).manifests
    assert {entry.digest for entry in entries} == {square.digest, result["digest"]}
    assert all(entry.platform and entry.platform.os == "linux" for entry in entries)
    variants = {entry.digest: entry.platform.variant for entry in entries if entry.platform}
    assert variants[result["digest"]] == two_targets.other_isa
    # `cpu-x86_64-avx512_vnni`: the slug ends in the instruction set
    assert square.tag.endswith(f"-{variants[square.digest]}")


def test_a_machine_fetches_its_own_target(square: Built, two_targets: Targets, shell: Shell) -> None:
    reference = f"oci:{two_targets.layout}:v1.4"
    here, there = shell.folder / "here", shell.folder / "there"
    mine = shell.glowplug("fetch", reference, "--dest", here, "--json").json
    pretend = f"device_arch={two_targets.other_isa}"
    other = shell.glowplug("fetch", reference, "--dest", there, "--pretend-target", pretend, "--json").json
    assert mine["digest"] == square.digest
    assert other["digest"] == two_targets.done.json["digest"]
    assert mine["environment"]["TORCHINDUCTOR_CACHE_DIR"] == str(here / "inductor")
    assert (there / "record.json").read_bytes() != (here / "record.json").read_bytes()


def test_a_machine_that_nothing_fits_gets_the_reasons(two_targets: Targets, shell: Shell) -> None:
    place = shell.folder / "place"
    done = shell.glowplug(
        "fetch", f"oci:{two_targets.layout}:v1.4", "--dest", place, "--pretend-target", "torch=2.0.0", status=13
    )  # fmt: skip
    for gpu_type in two_targets.done.json["targets"]:
        (line,) = [line for line in done.stderr.splitlines() if line.startswith(f"  {gpu_type}: ")]
        assert "≠ 2.0.0" in line
    assert f"device arch {two_targets.other_isa} ≠ " in done.stderr
    assert done.stdout == ""
    assert _entries(shell.folder) == {"cwd", "home", "tmp"}
    assert _entries(shell.folder / "tmp") == _entries(shell.folder / "cwd") == set()


def _entries(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}
