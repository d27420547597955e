"""Prove: unpack the packed bytes elsewhere, run the model there in a fresh process, and look at what it compiled."""

from __future__ import annotations

import os
from pathlib import Path

from glowplug.archive.layer_writer import PackedLayer
from glowplug.archive.unpack import Layer, unpack
from glowplug.build.capture import Capture
from glowplug.build.model_run import ModelRun, Place, move_away, run_model
from glowplug.build.session import Session
from glowplug.caches.table import relocation
from glowplug.caches.walk import take_inventory
from glowplug.core.proof import Demands, Proof, find_shortfalls
from glowplug.engine.local import OTHER_UID, other_user


def prove(
    session: Session, captured: Capture, layers: tuple[PackedLayer, ...], eager: ModelRun | None
) -> Proof:
    """Replay the capture under conditions that differ in everything a container start may change.

    The captured folder is renamed first, so that an absolute path into it cannot pass for a hit.

    Raises:
        ModelRunError: the model failed with the restored cache.
        IntegrityError: the packed bytes cannot be unpacked.
    """
    with session.console.step("Prove: replay from the packed bytes in a fresh process") as step:
        move_away(captured.cache_root)
        prefix, user = other_user(str(session.interpreter), session.model_folder)
        owner = (OTHER_UID, OTHER_UID) if prefix else None
        cache_root = session.work / "replay" / "elsewhere" / "caches"
        _unpack(layers, cache_root, owner)
        cwd = session.work / "replay" / "cwd"
        _link_farm(session.model_folder, cwd, owner)
        home = session.work / "warm" / "home"
        place = Place(
            "warm",
            cache_root,
            cwd,
            tuple(prefix),
            owner,
            {"HOME": str(home), "USER": "glowplug-replay", "LOGNAME": "glowplug-replay"},
            captured.run.outputs,
            behind_another_module=True,
        )
        run = run_model(session, place, step)
        new_entries = captured.inventory.difference(take_inventory(cache_root)).added
        demands = Demands(session.spec.prove.max_compile_work, session.spec.prove.output_tolerance)
        proof = Proof(
            eager.report if eager else None,
            captured.run.report,
            run.report,
            run.comparisons,
            new_entries,
            {
                "user": user,
                "path": "another path, the captured folder moved away",
                "home": "empty",
                "tmpdir": "empty",
                "cwd": "another folder with links to the model's files",
                "entry": "another module imported torch first",
            },
            find_shortfalls(run.report, run.comparisons, new_entries, demands),
        )
        verdict = "same output" if all(c.equal for c in run.comparisons) else "OUTPUT DIFFERS"
        step.result = (
            f"first answer after {run.report.first_answer_s:.1f} s, {run.report.work.describe()}, {verdict}"
        )
    return proof


def _unpack(layers: tuple[PackedLayer, ...], cache_root: Path, owner: tuple[int, int] | None) -> None:
    content = [Layer(layer.descriptor, layer.path, layer.diff_id) for layer in layers]
    unpack(content, cache_root, relocation=relocation(cache_root), owner=owner)


def _link_farm(folder: Path, cwd: Path, owner: tuple[int, int] | None) -> None:
    """Make another working directory in which the model finds its files by the same relative names."""
    cwd.mkdir(parents=True)
    for item in folder.iterdir():
        # A compiled-bytecode folder is the interpreter's to write, and belongs to whoever ran it before.
        if item.name != "__pycache__":
            (cwd / item.name).symlink_to(item)
    if owner is not None:
        os.chown(cwd, *owner)
