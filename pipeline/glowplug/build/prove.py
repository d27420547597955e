"""Prove: unpack the packed bytes elsewhere, run the model there in a fresh process, and look at what it compiled."""

from __future__ import annotations

from glowplug.archive.layer_writer import PackedLayer
from glowplug.archive.unpack import Layer, unpack
from glowplug.build.capture import Capture
from glowplug.build.model_run import Conditions, ModelRun, job_folder, move_away, run_model
from glowplug.build.session import Session
from glowplug.caches.table import relocation
from glowplug.caches.walk import take_inventory
from glowplug.core.command_spec import CommandWorkload
from glowplug.core.proof import Demands, Proof, find_shortfalls
from glowplug.core.spec import Workload
from glowplug.workload.job import JobFolder


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
        folder = job_folder(session, "warm")
        _unpack(layers, folder)
        run = run_model(session, folder, Conditions(reference=captured.run.outputs, replay=True), step)
        new_entries = captured.inventory.difference(take_inventory(folder.caches)).added
        wanted = session.spec.prove
        demands = Demands(wanted.max_compile_work, wanted.output_tolerance, session.spec.run.inputs_key)
        proof = Proof(
            eager.report if eager else None,
            captured.run.report,
            run.report,
            run.comparisons,
            new_entries,
            {
                "user": session.engine.other_user,
                "path": "another path, the captured folder moved away",
                "home": "empty",
                "tmpdir": "empty",
                "cwd": session.engine.other_folder,
                **_kind_conditions(session.spec.run.workload),
            },
            find_shortfalls(run.report, run.comparisons, new_entries, demands),
        )
        verdict = "same output" if all(c.equal for c in run.comparisons) else "OUTPUT DIFFERS"
        step.result = (
            f"first answer after {run.report.first_answer_s:.1f} s, {run.report.work.describe()}, {verdict}"
        )
    return proof


def _kind_conditions(workload: Workload) -> dict[str, str]:
    """Say what only some workloads allow: a server imports its modules itself, and answers with ids and times."""
    if not isinstance(workload, CommandWorkload):
        return {"entry": "another module imported torch first"}
    return {"not compared": ", ".join(workload.ignore) or "nothing is left out"}


def _unpack(layers: tuple[PackedLayer, ...], folder: JobFolder) -> None:
    content = [Layer(layer.descriptor, layer.path, layer.diff_id) for layer in layers]
    unpack(content, folder.caches, relocation=relocation(folder.workspace.seen(folder.caches)))
