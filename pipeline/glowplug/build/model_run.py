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
from glowplug.core.contract import environment_contract, scrub
from glowplug.core.leaks import masked
from glowplug.core.proof import Comparison, RunReport, comparison_from_json, run_report_from_json
from glowplug.engine.local import Launch, last_lines, run
from glowplug.errors import IntegrityError, ModelRunError
from glowplug.report.console import Step
from glowplug.workload.job import JobFolder, make_job

AGENT = Path(__file__).resolve().parent.parent / "agent"
# Both hold a sitecustomize.py, and each hands over to the next.
_SITES = ("probe", "start")
_ROOT_ONLY_DATA = {"HF_HOME": ".cache/huggingface", "TORCH_HOME": ".cache/torch"}


@dataclass(frozen=True)
class Place:
    """Where and as whom the model runs.

    Attributes:
        name: of the run: ``eager``, ``cold``, ``warm``.
        cache_root: where its compile caches are.
        cwd: its working directory.
        prefix: words before the command that make it another user.
        owner: who that is, as user and group id; ``None`` for the same user.
        extra_env: variables that only this run has.
        reference: outputs to compare with.
        behind_another_module: whether another module than the model's seems to have imported torch first.
    """

    name: str
    cache_root: Path
    cwd: Path
    prefix: tuple[str, ...] = ()
    owner: tuple[int, int] | None = None
    extra_env: Mapping[str, str] = field(default_factory=dict)
    reference: Path | None = None
    behind_another_module: bool = False


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


def run_model(session: Session, place: Place, step: Step) -> ModelRun:
    """Run every input of the workload in a fresh process.

    Raises:
        ModelRunError: the model raised, was killed, or took too long.
        EngineError: the interpreter cannot be started.
    """
    folder = JobFolder(session.work / place.name, place.reference, place.behind_another_module)
    _prepare(session, place, folder)
    env = model_environment(session, place, folder)
    runner = folder.path / "agent" / "runner.py"
    argv = [*place.prefix, str(session.interpreter), str(runner), str(folder.job)]
    launch = Launch(argv, place.cwd, env, folder.log, session.spec.run.timeout_s)
    status = run(launch, _Ticker(folder, step))
    result = _read_result(folder)
    if status != 0 or not result.get("complete"):
        raise _failure(session, place, folder, status, result)
    report = _report(result, read_compile_work(folder.events))
    comparisons = tuple(comparison_from_json(item) for item in result.get("comparisons", ()))
    return ModelRun(report, env, comparisons, result["torch"], folder.outputs, folder.log)


def model_environment(session: Session, place: Place, folder: JobFolder) -> dict[str, str]:
    """Compose the model's whole environment: what the command had, without secrets; the contract; the spec's words.

    Later sources win: the spec may overrule the contract, and nothing overrules where caches and events go.
    """
    spec = session.spec.run
    kept, _ = scrub(session.environ, spec.secrets)
    for name, below_home in _ROOT_ONLY_DATA.items():
        # Another HOME must not mean that weights are downloaded again.
        data = Path(kept.get("HOME", "/nonexistent")) / below_home
        if name not in kept and data.is_dir():
            kept[name] = str(data)
    wanted = {
        **kept,
        **environment_contract(session.facts.target),
        **spec.environment,
        **{name: session.environ[name] for name in spec.secrets if name in session.environ},
        **place.extra_env,
    }
    modules = [wanted["PYTHONPATH"]] if wanted.get("PYTHONPATH") else []
    return {
        **wanted,
        **environment(place.cache_root),
        # Cog's server, and torch's workers, start whatever `python` means.
        "PATH": f"{session.interpreter.parent}{os.pathsep}{wanted.get('PATH', os.defpath)}",
        "TMPDIR": str(folder.path / "tmp"),
        "PYTHONPATH": os.pathsep.join([*(str(folder.path / "agent" / name) for name in _SITES), *modules]),
        "PYTHONUNBUFFERED": "1",
        "GLOWPLUG_PROBE_DIR": str(folder.events),
    }


def read_compile_work(events: Path) -> CompileWork:
    """Sum up what every process of a run wrote."""
    texts = [file.read_text("utf-8", errors="replace") for file in sorted(events.glob("*.jsonl"))]
    return summarize(parse_events(line for text in texts for line in text.splitlines()))


def _prepare(session: Session, place: Place, folder: JobFolder) -> None:
    folder.path.mkdir(mode=0o755, exist_ok=True)
    shutil.copytree(AGENT, folder.path / "agent", ignore=shutil.ignore_patterns("__pycache__", "*.md"))
    place.cache_root.mkdir(parents=True, exist_ok=True)
    for path in folder.writable:
        path.mkdir()
        if place.owner is not None:
            os.chown(path, *place.owner)
    folder.job.write_text(json.dumps(make_job(session.spec, folder)), "utf-8")
    for path in (folder.path, *folder.path.rglob("*")):
        if path not in folder.writable:
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


def _failure(
    session: Session, place: Place, folder: JobFolder, status: int, result: Mapping[str, Any]
) -> ModelRunError:
    said = result.get("error") or f"its process ended with {_status_text(status)}"
    answered = len(result.get("inputs", ()))
    where = f"at inputs[{answered}]" if "ready_at_s" in result else "before it was ready"
    tail = last_lines(folder.log)
    log = f"\n{_indented(tail)}" if tail else ""
    message = f"{session.shown_workload} failed in the {place.name} run {where}: {said}{log}"
    return ModelRunError(
        masked(message, session.secrets),
        hint="run it by itself first: it fails without glowplug's caches too, or tell us",
    )


def _status_text(status: int) -> str:
    if status == -9:
        return "signal 9 (killed; out of memory?)"
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def _indented(text: str) -> str:
    return "\n".join(f"  | {line}" for line in text.splitlines())


def move_away(folder: Path) -> Path:
    """Give a folder a name that nothing can have recorded, so that a path into it can only be a leak."""
    return folder.rename(folder.with_name(f"{folder.name}-moved-{uuid.uuid4().hex[:8]}"))
