"""What a spec leaves to the model's image: the version, the predictor, and values of its inputs."""

from __future__ import annotations

from dataclasses import replace

from glowplug.build.spec_file import LoadedSpec
from glowplug.core.image import ModelImage
from glowplug.core.spec import CogWorkload, ImageVersion, RunSpec
from glowplug.errors import SpecError
from glowplug.workload.cog_image import read_cog_labels
from glowplug.workload.cog_inputs import complete_inputs


def settle_image(loaded: LoadedSpec, image: ModelImage) -> LoadedSpec:
    """Return the spec with everything filled in that the image says.

    Raises:
        SpecError: the spec names nothing to run, and neither does the image; or an input that its predictor has not.
    """
    version = image.version if isinstance(loaded.spec.model.version_source, ImageVersion) else loaded.version
    spec = replace(loaded.spec, run=_settled(loaded.spec.run, image))
    return replace(loaded, spec=spec, version=version, image=image)


def _settled(run: RunSpec, image: ModelImage) -> RunSpec:
    workload = run.workload
    if not isinstance(workload, CogWorkload):
        return run
    cog = read_cog_labels(image.labels)
    if cog is None and not workload.ref:
        raise SpecError(
            f"run names nothing to run, and {image.reference} was not built by Cog",
            hint="write run.python, run.cog or run.command",
        )
    if cog is None:
        return run
    inputs = run.inputs if cog.inputs is None else complete_inputs(run.inputs, cog.inputs)
    return replace(run, workload=replace(workload, ref=workload.ref or cog.ref), inputs=inputs)
