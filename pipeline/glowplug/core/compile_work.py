"""What really got compiled, summed up from the probe's events (agent/probe/_glowplug_probe.py writes them)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from glowplug.errors import IntegrityError

# How many names of rebuilt things a record keeps: enough to see the pattern.
MAX_NAMES = 20


class CompileWork(NamedTuple):
    """Compile work of one run, over all its processes.

    Attributes:
        builds: native compiler processes that produced something (g++, nvcc, ptxas, ...).
        build_s: their wall seconds, added up; a process that outlived its parent's interest adds nothing.
        queries: compiler processes that only answered (``--version``, ``-E``).
        triton_compiles, triton_hits: kernels that Triton compiled, and found.
        fx_hits, fx_misses, fx_bypasses: Inductor's FxGraphCache.
        aot_hits, aot_misses, aot_bypasses: AOTAutogradCache.
        frames: frames that Dynamo traced; tracing is repeated on every start and is no compile work.
        graph_breaks: how often Dynamo gave a piece of the model back to the interpreter.
        processes: Python processes that were watched.
        blind_processes: Python processes that could not be watched: children started with -I, -E or -S, and those in
            which the probe failed.
        built: what the builds produced, by file name or kernel name, at most 20.
        reasons: Dynamo's words for what it did not compile, their first lines, at most 20.
    """

    builds: int = 0
    build_s: float = 0.0
    queries: int = 0
    triton_compiles: int = 0
    triton_hits: int = 0
    fx_hits: int = 0
    fx_misses: int = 0
    fx_bypasses: int = 0
    aot_hits: int = 0
    aot_misses: int = 0
    aot_bypasses: int = 0
    frames: int = 0
    graph_breaks: int = 0
    processes: int = 0
    blind_processes: int = 0
    built: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Work that a complete cache leaves out: builds, Triton compilations, misses of Inductor and AOTAutograd."""
        return self.builds + self.triton_compiles + self.misses

    @property
    def misses(self) -> int:
        """Graphs that were compiled although a cache was there to be asked."""
        return self.fx_misses + self.fx_bypasses + self.aot_misses

    def to_json(self) -> dict[str, Any]:
        """Return the counts as they stand in a record."""
        return self._asdict() | {
            "built": list(self.built),
            "reasons": list(self.reasons),
            "total": self.total,
        }

    def describe(self) -> str:
        """Say in one line what was compiled."""
        parts = (
            (self.builds, "native build", "native builds"),
            (self.triton_compiles, "Triton compilation", "Triton compilations"),
            (self.fx_misses, "Inductor miss", "Inductor misses"),
            (self.fx_bypasses, "graph that Inductor cannot cache", "graphs that Inductor cannot cache"),
            (self.aot_misses, "AOTAutograd miss", "AOTAutograd misses"),
        )
        said = [f"{count} {one if count == 1 else many}" for count, one, many in parts if count]
        return ", ".join(said) or "no compile work"


_COUNTER_FIELDS = {
    ("inductor", "fxgraph_cache_hit"): "fx_hits",
    ("inductor", "fxgraph_cache_miss"): "fx_misses",
    ("inductor", "fxgraph_cache_bypass"): "fx_bypasses",
    ("aot_autograd", "autograd_cache_hit"): "aot_hits",
    ("aot_autograd", "autograd_cache_miss"): "aot_misses",
    ("aot_autograd", "autograd_cache_guard_miss"): "aot_misses",
    ("aot_autograd", "autograd_cache_bypass"): "aot_bypasses",
    ("frames", "total"): "frames",
}


def parse_events(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Read the probe's lines; one that a kill cut short is left out."""
    events = []
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return events


def summarize(events: Iterable[Mapping[str, Any]]) -> CompileWork:
    """Add up events of any number of processes, in any order."""
    counts: Counter[str] = Counter()
    names: dict[str, None] = {}
    reasons: dict[str, None] = {}
    roles: dict[str, str] = {}
    seconds: dict[str, float] = {}
    for event in events:
        kind = event.get("event")
        if kind == "tool":
            roles[event["id"]] = event["role"]
            counts["builds" if event["role"] == "build" else "queries"] += 1
            if event["role"] == "build":
                names[event.get("output") or event["tool"]] = None
        elif kind == "tool_end":
            seconds[event["of"]] = float(event["seconds"])
        elif kind == "triton":
            counts["triton_hits" if event["hit"] else "triton_compiles"] += 1
            if not event["hit"]:
                names[event["kernel"]] = None
        elif kind == "counter":
            _count(event, counts, reasons)
        elif kind in ("process", "blind", "probe_error"):
            counts["processes" if kind == "process" else "blind_processes"] += 1
    build_s = sum(value for key, value in seconds.items() if roles.get(key) == "build")
    return CompileWork(
        **counts,
        build_s=round(build_s, 3),
        built=tuple(names)[:MAX_NAMES],
        reasons=tuple(reasons)[:MAX_NAMES],
    )


def _count(event: Mapping[str, Any], counts: Counter[str], reasons: dict[str, None]) -> None:
    group, name, by = event["group"], event["name"], int(event["by"])
    known = _COUNTER_FIELDS.get((group, name))
    if known:
        counts[known] += by
    elif group in ("graph_break", "unimplemented"):
        counts["graph_breaks"] += by
        reasons[name.partition("\n")[0]] = None


def compile_work_from_json(value: Any) -> CompileWork:
    """Read what ``to_json`` wrote.

    Raises:
        IntegrityError: it is no object, or a count is no number.
    """
    if not isinstance(value, Mapping):
        raise IntegrityError("a record holds compile work that is no object")
    known: dict[str, Any] = {name: value[name] for name in CompileWork._fields if name in value}
    names = {name: known.pop(name, []) for name in ("built", "reasons")}
    if any(not isinstance(listed, (list, tuple)) for listed in names.values()):
        raise IntegrityError("a record holds compile work without names")
    if any(not isinstance(count, (int, float)) for count in known.values()):
        raise IntegrityError("a record holds compile work that is no number")
    return CompileWork(**known | {name: tuple(map(str, listed)) for name, listed in names.items()})
