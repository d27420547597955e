"""The job that ``agent/runner.py`` reads: what to run, how often, and where results go."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from glowplug.core.command_spec import CommandWorkload
from glowplug.core.spec import CogWorkload, Spec, Workload
from glowplug.core.workspace import Workspace

# Repeating calls for a latency figure must not cost more GPU time than the capture itself.
STEADY_BUDGET_S = 20.0


@dataclass(frozen=True)
class JobFolder:
    """Where one run keeps its files: in a workspace, so that the model may see them elsewhere than we do."""

    workspace: Workspace

    @property
    def path(self) -> Path:
        """The folder; everything below it is the run's."""
        return self.workspace.here

    @property
    def job(self) -> Path:
        """The job itself."""
        return self.path / "job.json"

    @property
    def result(self) -> Path:
        """What the runner found, rewritten after every step."""
        return self.path / "result" / "result.json"

    @property
    def outputs(self) -> Path:
        """One file per input: what the model returned."""
        return self.path / "outputs"

    @property
    def events(self) -> Path:
        """One file per process: what the probe saw."""
        return self.path / "events"

    @property
    def caches(self) -> Path:
        """The cache root."""
        return self.path / "caches"

    @property
    def reference(self) -> Path:
        """Outputs of an earlier run to compare with, if there is one."""
        return self.path / "reference"

    @property
    def uploads(self) -> Path:
        """Files that requests bring along, named by their digests; the runner looks for them beside the job."""
        return self.path / "uploads"

    @property
    def log(self) -> Path:
        """Stdout and stderr of the model."""
        return self.path / "model.log"

    @property
    def watched(self) -> tuple[Path, ...]:
        """Folders that tell how far the run is."""
        return self.result.parent, self.events

    @property
    def scratch(self) -> tuple[Path, ...]:
        """Folders that are of no use after the run."""
        return self.path / "tmp", self.path / "home"

    @property
    def writable(self) -> tuple[Path, ...]:
        """Folders that the model's processes write to."""
        return *self.watched, self.outputs, self.caches, *self.scratch


def make_job(spec: Spec, folder: JobFolder, *, behind_another_module: bool) -> dict[str, Any]:
    """Return the job for one run of the spec's workload over all its inputs.

    Args:
        spec: the workload and its inputs.
        folder: the run's.
        behind_another_module: whether another module than the model's seems to have imported torch first.
    """
    seen = folder.workspace.seen
    return {
        "workload": _workload(spec.run.workload, spec.run.secrets),
        "inputs": list(spec.run.inputs),
        "seed": spec.run.seed,
        "steady_runs": spec.prove.steady_runs,
        "steady_budget_s": STEADY_BUDGET_S,
        "tolerance": spec.prove.output_tolerance,
        "result": str(seen(folder.result)),
        "outputs": str(seen(folder.outputs)),
        "reference": str(seen(folder.reference)) if folder.reference.exists() else None,
        "behind_another_module": behind_another_module,
    }


def copy_uploads(spec: Spec, spec_folder: Path, folder: JobFolder) -> None:
    """Put the files that requests bring along, which the spec names relative to its own folder, beside the job."""
    if not isinstance(spec.run.workload, CommandWorkload):
        return
    folder.uploads.mkdir()
    for request in spec.run.inputs:
        for file in request.get("files", {}).values():
            shutil.copyfile(spec_folder / file["path"], folder.uploads / file["digest"].replace(":", "-"))


def _workload(workload: Workload, secrets: tuple[str, ...]) -> dict[str, Any]:
    if isinstance(workload, CogWorkload):
        return {"type": "cog", "ref": workload.ref, "weights": workload.weights}
    if isinstance(workload, CommandWorkload):
        ready = {name: value for name, value in asdict(workload.ready).items() if value is not None}
        return {"type": "command", "secrets": secrets, **asdict(workload), "ready": ready}
    return {"type": "python", "target": workload.target}
