"""Capture: run the model with empty caches, and list what it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from glowplug.build.model_run import Conditions, ModelRun, job_folder, run_model
from glowplug.build.session import Session
from glowplug.caches.table import KINDS
from glowplug.caches.walk import take_inventory
from glowplug.core.contract import environment_contract, recorded
from glowplug.core.diagnosis import switched_off, why_nothing
from glowplug.core.inventory import Inventory
from glowplug.core.leaks import require_absent
from glowplug.core.target import FIELD_NAMES
from glowplug.errors import EngineError, ModelRunError, NothingCapturedError
from glowplug.report.console import size_text


@dataclass(frozen=True)
class Capture:
    """What the cold run left.

    Attributes:
        run: the run itself.
        cache_root: where the caches are.
        inventory: what is in them.
        contract: variables that a start must set as they were here.
        created: when, UTC, RFC 3339.
    """

    run: ModelRun
    cache_root: Path
    inventory: Inventory
    contract: dict[str, str]
    created: str


def run_eager(session: Session) -> ModelRun | None:
    """Run the model without torch.compile, for comparison; a model that cannot do that is no reason to stop.

    It goes first, so that the files of torch and of the model are in the page cache for all timed runs alike.
    """
    without = Conditions({"TORCH_COMPILE_DISABLE": "1", "TORCHDYNAMO_DISABLE": "1"})
    try:
        with session.console.step("Run the model without torch.compile") as step:
            run = run_model(session, job_folder(session, "eager"), without, step)
            step.result = f"first answer after {run.report.first_answer_s:.1f} s"
            return run
    except ModelRunError as error:
        session.console.warn(f"no eager figures: {error}")
        return None


def require_caches_on(session: Session) -> None:
    """Stop before any GPU time is spent when the environment turns caching off.

    Raises:
        NothingCapturedError: naming the variable.
    """
    diagnosis = switched_off({**session.engine.environ, **session.spec.run.environment})
    if diagnosis:
        raise NothingCapturedError(f"nothing would be captured: {diagnosis.reason}", hint=diagnosis.hint)


def capture(session: Session, created: str) -> Capture:
    """Run the model cold.

    Raises:
        ModelRunError: it failed.
        NothingCapturedError: it left no cache.
        GlowplugError: a secret got into the cache.
    """
    folder = job_folder(session, "cold")
    cache_root = folder.caches
    with session.console.step("Capture: run the model with empty caches") as step:
        run = run_model(session, folder, Conditions(), step)
        _require_agreement(session, run)
        inventory = take_inventory(cache_root)
        if not any(KINDS[entry.kind].is_entry(entry) for entry in inventory.files):
            diagnosis = why_nothing(
                run.report.work,
                compiler_loaded=bool(run.torch.get("compiled")),
                left_code=bool(inventory.files),
            )
            raise NothingCapturedError(f"nothing was captured: {diagnosis.reason}", hint=diagnosis.hint)
        # torch copies parts of the environment into its entries.
        for entry in inventory.files:
            content = (cache_root / entry.path).read_bytes()
            require_absent(session.secrets, content, f"the captured file {entry.path}")
        step.result = (
            f"first answer after {run.report.first_answer_s:.1f} s, {run.report.work.describe()}; "
            f"{len(inventory.files)} files, {size_text(inventory.size_bytes)}"
        )
    settings = environment_contract(session.facts.target) | recorded(run.environment)
    contract = {name: run.environment[name] for name in sorted(settings) if name in run.environment}
    return Capture(run, cache_root, inventory, contract, created)


def _require_agreement(session: Session, run: ModelRun) -> None:
    """Compare what we read from files with what torch said: a wrong target would be found by the wrong hosts."""
    target = session.facts.target
    for name in FIELD_NAMES:
        said = run.torch.get(name)
        if name in session.pretended or said is None:
            continue
        if said != getattr(target, name):
            raise EngineError(
                f"this host's {name.replace('_', ' ')} was read as '{getattr(target, name)}', "
                f"but torch says '{said}'",
                hint="see whether the model switches interpreters or hides devices; otherwise please report this",
            )
