"""What was captured under `CI=true` is hit where it is needed: elsewhere, on other cores, without CI."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from integration.e2e.client import CLIENT
from integration.e2e.commands import Probe, Shell
from integration.e2e.conftest import Built


def test_a_cache_from_ci_is_hit_elsewhere(network: Built, shell: Shell, tmp_path: Path) -> None:
    probe = Probe(tmp_path / "events")
    env = shell.environ(OMP_NUM_THREADS="1", **probe.environ(network.project.folder))
    command = ["--strict", "--", "python", "-c", CLIENT]
    said = shell.glowplug("run", f"oci:{network.layout}:v1", *command, env=env).json
    work = probe.work()
    assert said["threads"] == 1
    assert (work.total, work.builds, work.misses, work.blind_processes) == (0, 0, 0, 0)
    assert (work.fx_hits, work.aot_hits) == (1, 1)
    assert work.frames > 0
    assert said["compiled"] == pytest.approx(said["eager"], rel=1e-5, abs=1e-6)


def test_without_the_contract_the_same_cache_is_missed(network: Built, shell: Shell, tmp_path: Path) -> None:
    """The control of the test above: it would notice."""
    place = tmp_path / "place"
    shell.glowplug("fetch", f"oci:{network.layout}:v1", "--dest", place)
    probe = Probe(tmp_path / "events")
    env = shell.environ(
        OMP_NUM_THREADS="1",
        TORCHINDUCTOR_CACHE_DIR=str(place / "inductor"),
        # Only to save time and room: without it, torch compiles 150 MB of headers first.
        TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS="0",
        **probe.environ(network.project.folder),
    )
    done = shell.run([sys.executable, "-c", CLIENT], env)
    work = probe.work()
    assert done.json["compiled"] == pytest.approx(done.json["eager"], rel=1e-5, abs=1e-6)
    assert work.builds > 0
    assert (work.fx_misses, work.aot_misses) == (1, 1)
    assert (work.fx_hits, work.aot_hits) == (0, 0)
