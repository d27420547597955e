"""Runs the model once in a prepared environment, and reads what the runner and the probe wrote."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glowplug.build.session import Session
from glowplug.caches.table import environment
from glowplug.core.compile_work import CompileWork, parse_events, summarize
from glowplug.core.contract import environment_contract
from glowplug.core.leaks import masked
from glowplug.core.proof import Comparison, RunReport, comparison_from_json, run_report_from_json
from glowplug.core.spec import RunSpec
from glowplug.engine.launch import Launch
from glowplug.engine.log import last_lines
from glowplug.errors import IntegrityError, ModelRunError
from glowplug.report.console import Step
from glowplug.workload.job import JobFolder, copy_uploads, make_job

AGENT = Path(__file__).resolve().parent.parent / "agent"
# Both hold a sitecustomize.py, and each hands over to the next.
_SITES = ("probe", "start")
_OTHER_NAME = "glowplug-replay"


@dataclass(frozen=True)
class Conditions:
    """What is special about one run.

    Attributes:
        extra_env: variables that only this run has.
        reference: folder with outputs to compare with.
        replay: whether it differs from the capture in all that a container's start may change: user, working directory,
            HOME, and which module imported torch first.
    """

    extra_env: Mapping[str, str] = field(default_factory=dict)
    reference: Path | None = None
    replay: bool = False


@dataclass(frozen=True)
class ModelRun:
    """One finished run.

    Attributes:
        report: timings and compile work.
        environment: the environment that the model had.
        comparisons: with the reference, one per input; empty without one.
        torch: what torch said of this machine.
        outputs: folder with what the model returned.
        log: file with what the model printed.
    """

    report: RunReport
    environment: Mapping[str, str]
    comparisons: tuple[Comparison, ...]
    torch: Mapping[str, Any]
    outputs: Path
    log: Path


def job_folder(session: Session, name: str) -> JobFolder:
    """Make the folder of one run: ``eager``, ``cold``, ``warm``."""
    folder = JobFolder(session.engine.workspace(session.work / name))
    folder.path.mkdir(mode=0o755)
    return folder


def run_model(session: Session, folder: JobFolder, conditions: Conditions, step: Step) -> ModelRun:
    """Run every input of the workload in a fresh process, with the caches that are in the folder.

    Raises:
        ModelRunError: the model raised, was killed, or took too long.
        EngineError: the interpreter cannot be started.
    """
    _prepare(session, folder, conditions)
    engine, seen = session.engine, folder.workspace.seen
    env = model_environment(session, folder, conditions)
    launch = Launch(
        (engine.python, str(seen(folder.path / "agent" / "runner.py")), str(seen(folder.job))),
        env,
        folder.workspace,
        folder.writable,
        folder.log,
        session.spec.run.timeout_s,
        engine.stand_in(folder.workspace) if conditions.replay else None,
        conditions.replay,
        folder.watched,
        folder.scratch,
    )
    status = engine.run(launch, _Ticker(folder, step))
    result = _read_result(folder)
    if status != 0 or not result.get("complete"):
        raise _failure(session, folder, status, result)
    for note in result.get("notes", ()):
        session.console.warn(f"in the {folder.path.name} run, {note}")
    report = _report(result, read_compile_work(folder.events))
    comparisons = tuple(comparison_from_json(item) for item in result.get("comparisons", ()))
    return ModelRun(report, env, comparisons, result["torch"], folder.outputs, folder.log)


def model_environment(session: Session, folder: JobFolder, conditions: Conditions) -> dict[str, str]:
    """Compose the model's whole environment: what it would have anyway; the contract; the spec's words.

    Later sources win: the spec may overrule the contract, and nothing overrules where caches and events go.
    """
    spec, seen = session.spec.run, folder.workspace.seen
    wanted = {
        **session.engine.environ,
        **environment_contract(session.facts.target),
        **spec.environment,
        **{name: session.environ[name] for name in spec.secrets if name in session.environ},
        **conditions.extra_env,
    }
    if conditions.replay:
        wanted |= {"HOME": str(seen(folder.path / "home")), "USER": _OTHER_NAME, "LOGNAME": _OTHER_NAME}
    modules = [wanted["PYTHONPATH"]] if wanted.get("PYTHONPATH") else []
    sites = [str(seen(folder.path / "agent" / name)) for name in _SITES]
    return {
        **wanted,
        **environment(seen(folder.caches)),
        "PATH": session.engine.search_path(wanted.get("PATH", os.defpath)),
        "TMPDIR": str(seen(folder.path / "tmp")),
        "PYTHONPATH": os.pathsep.join([*sites, *modules]),
        "PYTHONUNBUFFERED": "1",
        "GLOWPLUG_PROBE_DIR": str(seen(folder.events)),
    }


def read_compile_work(events: Path) -> CompileWork:
    """Sum up what every process of a run wrote."""
    texts = [file.read_text("utf-8", errors="replace") for file in sorted(events.glob("*.jsonl"))]
    return summarize(parse_events(line for text in texts for line in text.splitlines()))


def _prepare(session: Session, folder: JobFolder, conditions: Conditions) -> None:
    shutil.copytree(AGENT, folder.path / "agent", ignore=shutil.ignore_patterns("__pycache__", "*.md"))
    if conditions.reference is not None:
        shutil.copytree(conditions.reference, folder.reference, copy_function=os.link)
    for path in folder.writable:
        path.mkdir(exist_ok=True)
    copy_uploads(session.spec, session.loaded.folder, folder)
    job = make_job(session.spec, folder, behind_another_module=conditions.replay)
    folder.job.write_text(json.dumps(job), "utf-8")
    for path in (folder.path, *folder.path.rglob("*")):
        if not any(path.is_relative_to(writable) for writable in folder.writable):
            path.chmod(0o755 if path.is_dir() else 0o644)  # whatever the umask: the other user reads this


class _Ticker:
    """Tells how far a run is: seconds, native builds, inputs answered."""

    def __init__(self, folder: JobFolder, step: Step) -> None:
        self._folder = folder
        self._step = step
        self._next_s = 1.0

    def __call__(self, elapsed_s: float) -> None:
        if elapsed_s < self._next_s:
            return
        self._next_s = elapsed_s + 1.0
        work = read_compile_work(self._folder.events)
        answered = len(_read_result(self._folder).get("inputs", ()))
        said = f", {work.describe()}" if work.total else ""
        self._step.progress(f"{elapsed_s:.0f} s, {answered} inputs answered{said}")


def _read_result(folder: JobFolder) -> dict[str, Any]:
    try:
        result = json.loads(folder.result.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return result if isinstance(result, dict) else {}


def _report(result: Mapping[str, Any], work: CompileWork) -> RunReport:
    try:
        return run_report_from_json({**result, "work": work.to_json()})
    except IntegrityError as error:
        raise ModelRunError(
            "the model's run left a result that cannot be read",
            hint="see whether the model changes JSON or os",
        ) from error


def _failure(session: Session, folder: JobFolder, status: int, result: Mapping[str, Any]) -> ModelRunError:
    said = result.get("error") or f"its process ended with {_status_text(status)}"
    where = _how_far(session.spec.run, result)
    tail = last_lines(folder.log)
    log = f"\n{_indented(tail)}" if tail else ""
    message = f"{session.shown_workload} failed in the {folder.path.name} run {where}: {said}{log}"
    return ModelRunError(
        masked(message, session.secrets),
        hint="run it by itself first: it fails without glowplug's caches too, or tell us",
    )


def _how_far(run: RunSpec, result: Mapping[str, Any]) -> str:
    if "ready_at_s" not in result:
        return "before it was ready"
    answered = len(result.get("inputs", ()))
    if answered < len(run.inputs):
        return f"at {run.inputs_key}[{answered}]"
    return f"after all {run.inputs_key} were answered once"


def _status_text(status: int) -> str:
    if status == -9:
        return "signal 9 (killed; out of memory?)"
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def _indented(text: str) -> str:
    return "\n".join(f"  | {line}" for line in text.splitlines())


def move_away(folder: Path) -> Path:
    """Give a folder a name that nothing can have recorded, so that a path into it can only be a leak."""
    return folder.rename(folder.with_name(f"{folder.name}-moved-{uuid.uuid4().hex[:8]}"))
