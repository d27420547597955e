"""`glowplug build`: what it publishes, and when it runs nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from glowplug.core.contract import environment_contract
from glowplug.core.target import target_from_json
from integration.e2e.commands import Done, Shell
from integration.e2e.conftest import Built
from integration.e2e.projects import CUBE, Project, write_spec
from integration.e2e.repositories import layout, tree


def test_a_build_proves_that_a_restore_compiles_nothing(network: Built) -> None:
    result = network.done.json
    proof = result["proof"]
    cold, warm = proof["cold"]["work"], proof["warm"]["work"]
    assert result["outcome"] == "published"
    assert cold["builds"] > 0
    assert (cold["fx_misses"], cold["aot_misses"]) == (1, 1)
    assert (cold["fx_hits"], cold["aot_hits"]) == (0, 0)
    assert (warm["builds"], warm["total"]) == (0, 0)
    assert (warm["fx_hits"], warm["aot_hits"]) == (1, 1)
    assert proof["eager"]["work"]["frames"] == 0
    assert proof["new_entries"] == []
    assert proof["shortfalls"] == []
    assert [(c["equal"], c["compared"]) for c in proof["comparisons"]] == [(True, 1), (True, 1)]
    root = os.geteuid() == 0
    assert proof["conditions"]["user"].startswith("other user (65534)" if root else "same user")
    assert network.project.imports == 3  # eager, cold, warm


def test_the_record_says_what_a_start_must_set(network: Built, shell: Shell) -> None:
    artifact = _inspect(shell, f"oci:{network.layout}:{network.tag}")
    record = artifact["record"]
    contract = environment_contract(target_from_json(record["target"]))
    assert contract["TORCHINDUCTOR_ERROR_ON_CUSTOM_OP_ALIASING"] == "0"
    assert record["contract"] == contract
    assert record["coverage"] == [{"batch": 4}, {"batch": 7}]
    assert record["proof"] == network.done.json["proof"]
    assert artifact["digest"] == network.digest


def test_a_build_for_what_is_there_runs_and_writes_nothing(
    network: Built, without_oras: Path, shell: Shell
) -> None:
    before, imports = _state(network.layout), network.project.imports
    env = shell.environ(PYTHONPATH=str(without_oras))
    spec = network.project.spec
    done = shell.glowplug("build", "-f", spec, env=env)
    # With one line on stdout, a script needs no parser.
    assert done.stdout == f"oci:{network.layout}:{network.tag}@{network.digest}\n"
    assert f"oci:{network.layout}:{network.tag} is there already; nothing to do" in done.stderr
    again = shell.glowplug("build", "-f", spec, "--json", env=env).json
    assert (again["outcome"], again["digest"], again["proof"]) == ("present", network.digest, None)
    assert network.project.imports == imports
    assert _state(network.layout) == before


def test_a_layout_folder_needs_neither_oras_nor_docker(
    network: Built, without_oras: Path, shell: Shell
) -> None:
    """``network`` itself was built that way."""
    env = shell.environ(PYTHONPATH=str(without_oras))
    for name in ("oras", "docker"):
        assert (
            f"{name} is not to be imported" in shell.run([sys.executable, "-c", f"import {name}"], env).stderr
        )
    reference = f"oci:{network.layout}:v1"
    place = shell.folder / "place"
    shell.glowplug("fetch", reference, "--dest", place, env=env)
    assert (place / "record.json").is_file()
    assert network.digest in shell.glowplug("inspect", reference, env=env).stdout
    done = shell.glowplug("run", reference, "--strict", "--", "sh", "-c", 'ls "$GLOWPLUG_CACHE"', env=env)
    assert "record.json" in done.stdout.split()
    assert (
        network.tag in shell.glowplug("index", f"oci:{network.layout}", "v1", "--json", env=env).json["tags"]
    )


def test_a_rebuild_with_the_same_keys_leaves_the_artifact(square: Built, shell: Shell) -> None:
    project, folder = _copy(square, shell)
    before = _state(folder)
    done = _build(shell, project, "--rebuild")
    assert done.json["outcome"] == "unchanged"
    assert done.json["digest"] == square.digest
    assert done.json["proof"]["warm"]["work"]["total"] == 0
    assert "the capture has the same keys as the published artifact, which stays" in done.stderr
    assert project.imports == 3
    # Testing the right to push rewrites the folder's marker, and that is all.
    after = _state(folder)
    assert {path for path in after | before if after.get(path) != before.get(path)} <= {"oci-layout"}


def test_a_rebuild_with_other_keys_moves_the_tag(square: Built, shell: Shell) -> None:
    project, folder = _copy(square, shell)
    (project.folder / "model.py").write_text(CUBE)
    present = _build(shell, project).json
    assert (present["outcome"], project.imports) == ("present", 0)  # what code does is not in the spec
    done = _build(shell, project, "--rebuild")
    assert done.json["outcome"] == "published"
    assert re.search(r"[1-9]\d* new keys, [1-9]\d* gone since the published artifact", done.stderr)
    assert done.json["digest"] != square.digest
    assert layout(folder).resolve(square.tag).digest == done.json["digest"]
    assert _inspect(shell, f"oci:{folder}:v1.4")["digest"] == done.json["digest"]
    assert (
        layout(folder).resolve(square.digest).digest == square.digest
    )  # a digest goes on naming the old one


def test_another_input_makes_the_artifact_stale(square: Built, shell: Shell) -> None:
    project, folder = _copy(square, shell)
    write_spec(project.folder, {"run": {"python": "model:answer", "inputs": [{"n": 4}, {"n": 5}]}})
    done = _build(shell, project)
    assert (done.json["outcome"], project.imports) == ("published", 3)
    assert len(done.json["proof"]["comparisons"]) == 2
    assert layout(folder).resolve(square.tag).digest == done.json["digest"] != square.digest
    assert _inspect(shell, f"oci:{folder}:v1.4")["record"]["coverage"] == [{"n": 4}, {"n": 5}]


def test_the_version_of_a_git_repository_is_in_the_tags(square: Built) -> None:
    result = square.done.json
    assert square.tag == f"v1.4-{result['targets'][0]}"
    assert result["index"].startswith(f"oci:{square.layout}:v1.4@sha256:")
    assert layout(square.layout).tags() == ["v1.4", square.tag]
    annotations = json.loads(layout(square.layout).resolve(square.tag).raw)["annotations"]
    assert annotations["dev.glowplug.model.version"] == "v1.4"


def _copy(built: Built, shell: Shell) -> tuple[Project, Path]:
    """Copy a project, of which nothing ran yet, and what it published."""
    folder = shell.folder / "project"
    shutil.copytree(built.project.folder, folder, ignore=shutil.ignore_patterns(".git", "__pycache__"))
    os.truncate(folder / "imports", 0)
    (folder / "imports").chmod(0o666)
    return Project(folder), folder / "cache"


def _build(shell: Shell, project: Project, *arguments: str) -> Done:
    return shell.glowplug("build", "-f", project.spec, "--version", "v1.4", "--json", *arguments)


def _inspect(shell: Shell, reference: str) -> Any:
    (artifact,) = shell.glowplug("inspect", reference, "--json").json["artifacts"]
    return artifact


def _state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return all files with their content and the time of their last change."""
    return {path: (content, (folder / path).stat().st_mtime_ns) for path, content in tree(folder).items()}
