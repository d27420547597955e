"""Two hundred commands at once, and hundreds that are killed."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from glowplug.boot.access import Access
from glowplug.boot.fetch import fetch
from glowplug.boot.store import Store
from glowplug.core.oci import digest_of
from glowplug.core.reference import parse_reference
from glowplug.host.facts import gather_facts
from glowplug.registry.source import open_source
from glowplug.report.console import Console
from integration.bad_input.project import Outcome, Project
from integration.faults.conftest import FILES, REPOSITORY, Publish
from integration.faults.nursery import AT_ONCE, SHARE_A_STORE
from integration.faults.settings import Stage
from integration.services import RegistryService

NURSERY = Path(__file__).with_name("nursery.py")
COUNT = 200
# One of these is a start, a server, its stop, and a push.
UPDATES = 80
PUBLISHED = "published what was compiled here: "


def run_nursery(words: str, stage: Stage, folder: Path, reference: str = "") -> dict[str, Any]:
    """Return what it answers, in the last line after those of the commands."""
    task, what, count = words.split()
    reference = reference or f"{stage.registry}/{REPOSITORY}:v3"
    done = subprocess.run(
        [sys.executable, str(NURSERY), task, what, reference, str(folder), count],
        env=Project(folder).environ(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def assert_spread(answer: dict[str, Any], count: int) -> None:
    """Hold a nursery to what it was for: nobody failed, some came through, and others were hit while they worked."""
    assert answer["killed"] >= count
    assert answer["failed"] == 0, answer
    assert answer["finished"] > 3, answer
    assert answer["batches_with_leftovers"] > 0, answer


def is_complete(destination: Path) -> bool:
    """Whether every file is there with every byte."""
    return (destination / "record.json").is_file() and all(
        (destination / name).read_bytes() == content for name, content in FILES.items()
    )


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def assert_complete_or_absent(folder: Path) -> None:
    """Hold all destinations in a folder to it; nothing else lies there but what the next fetch removes."""
    hidden = {name for name in names_in(folder) if name.startswith(".")}
    assert all(name.startswith(".glowplug.") and name.endswith(".partial") for name in hidden)
    assert all(is_complete(folder / name) for name in names_in(folder) if name not in hidden)


def fetch_last(project: Project, reference: str, folder: Path, *flags: str) -> Outcome:
    """Fetch once more, undisturbed, and hold the fetch to be complete and to leave nothing but itself."""
    destination = folder / f"last-{time.monotonic_ns()}"
    last = project.glowplug("fetch", reference, "--dest", str(destination), *flags)
    assert last.code == 0, last.stderr
    assert [name for name in names_in(folder) if name.startswith(".")] == []
    assert is_complete(destination)
    return last


def test_a_crowd(stage: Stage, registry: RegistryService) -> None:
    folder = stage.folder / "crowd"
    answer = run_nursery(f"crowd fetch {COUNT}", stage, folder)
    assert answer["codes"] == [0] * COUNT
    assert set(names_in(folder / "out")) == {str(number) for number in range(COUNT)}
    assert all(is_complete(destination) for destination in (folder / "out").iterdir())
    with open_source(registry.repository(REPOSITORY)) as source:
        assert source.resolve("v3").raw


def test_fetches_killed_at_any_instant(stage: Stage) -> None:
    folder = stage.folder / "killed"
    assert_spread(run_nursery(f"kill fetch {COUNT}", stage, folder), COUNT)
    assert_complete_or_absent(folder / "out")
    fetch_last(Project(stage.folder / "last"), f"{stage.registry}/{REPOSITORY}:v3", folder / "out")


def test_a_store_whose_users_are_killed_at_any_instant(stage: Stage) -> None:
    folder, reference = stage.folder / "killed", f"{stage.registry}/{REPOSITORY}:v3"
    assert_spread(run_nursery(f"kill store {COUNT}", stage, folder), COUNT)
    assert_complete_or_absent(folder / "out")
    stores = list((folder / "stores").iterdir())
    assert len(stores) >= COUNT // SHARE_A_STORE
    project, left = Project(stage.folder / "last"), 0
    for store in stores:
        left += len(age_partial_files(store))
        assert_only_whole_blobs(store)
        fetch_last(project, reference, folder / "out", "--store", str(store))
        assert age_partial_files(store) == []
        offline = fetch_last(project, reference, folder / "out", "--store", str(store), "--offline")
        assert not offline.said("warning: ")
    assert left > 0, "no kill has hit a store while it was written"


def age_partial_files(store: Path) -> list[Path]:
    """Let days pass for what was not finished."""
    found = list(store.rglob(".partial-*"))
    for path in found:
        os.utime(path, (1_000_000, 1_000_000))
    return found


def assert_only_whole_blobs(store: Path) -> None:
    for path in (store / "blobs" / "sha256").glob("[!.]*"):
        assert digest_of(path.read_bytes()) == f"sha256:{path.name}"
    for path in (store / "refs").glob("[!.]*"):
        ref = json.loads(path.read_bytes())
        assert Store(store).recall(ref["reference"]) == ref["digest"]


def test_updates_killed_at_any_instant(stage: Stage, registry: RegistryService, publish: Publish) -> None:
    folder, repositories = stage.folder / "killed", [f"faults/update-{slot}" for slot in range(AT_ONCE)]
    for repository in repositories:
        publish(repository)
    reference = f"{stage.registry}/faults/update-{{slot}}:v3"
    assert_spread(run_nursery(f"kill update {UPDATES}", stage, folder, reference), UPDATES)
    last = stage.folder / "last"
    assert run_nursery(f"crowd update {AT_ONCE}", stage, last, reference)["codes"] == [0] * AT_ONCE
    said = {**read_said(folder), **read_said(last)}
    # Each server began with what the killed ones had left; to none it was anything but a whole artifact.
    assert [text for text in said.values() if "error: " in text or "warning: " in text] == []
    published = {key for key, text in said.items() if PUBLISHED in text}
    assert {f"last-{slot}" for slot in range(AT_ONCE)} <= published
    for slot, repository in enumerate(repositories):
        by_tag = {
            tag: added_keys(f"{registry.host}/{repository}:{tag}") for tag in tags_of(registry, repository)
        }
        mine = {key for key in published if int(key.rpartition("-")[2]) % AT_ONCE == slot}
        assert len(mine) > 1
        if slot == 0:  # pending: each has a tag of its own, and v3 stays as it was
            pending = [keys for tag, keys in by_tag.items() if "pending" in tag]
            assert all({key} in pending for key in mine)
            assert by_tag["v3"] == set()
        else:
            assert all(mine <= keys for keys in by_tag.values())


def read_said(folder: Path) -> dict[str, str]:
    """Return what every server's parent said, by the key of what the server compiled."""
    return {f"{folder.name}-{path.name}": path.read_text() for path in (folder / "said").iterdir()}


def tags_of(registry: RegistryService, repository: str) -> list[str]:
    with open_source(registry.repository(repository)) as source:
        return source.tags()


def added_keys(reference: str) -> set[str]:
    """Fetch a whole artifact, and return what servers have added to it."""
    target = gather_facts(Path(sys.executable)).target
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "out"
        fetch(parse_reference(reference), target, place, Access(), Console(io.StringIO(), {}))
        assert is_complete(place)
        return {path.name for path in (place / "inductor" / "fxgraph" / "new").glob("*")}
