"""Whether a replay proves a cache: no compile work, nothing newly written, the same output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from glowplug.core.compile_work import CompileWork, compile_work_from_json
from glowplug.errors import IntegrityError


class Comparison(NamedTuple):
    """How one input's output compares with the reference's.

    Attributes:
        equal: within the tolerance.
        max_difference: the largest absolute difference of two numbers.
        compared: leaves (tensors, numbers, texts, files) that could be compared.
        reason: of the first mismatch, empty when equal.
    """

    equal: bool
    max_difference: float
    compared: int
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as it stands in a record."""
        return self._asdict()


class InputRun(NamedTuple):
    """One input of a run: seconds of its first call and of a later one, and whether the model repeats itself."""

    first_call_s: float
    steady_s: float | None
    repeats: Comparison | None

    def to_json(self) -> dict[str, Any]:
        """Return the run as it stands in a record."""
        return self._asdict() | {"repeats": self.repeats.to_json() if self.repeats else None}


class RunReport(NamedTuple):
    """One run of the model, from the start of its process.

    Attributes:
        ready_at_s: seconds until it was set up.
        first_answer_s: seconds until the first input was answered.
        warmed_at_s: seconds until every input was answered once.
        inputs: one entry per input, in order.
        work: what was compiled.
    """

    ready_at_s: float
    first_answer_s: float
    warmed_at_s: float
    inputs: tuple[InputRun, ...]
    work: CompileWork

    @property
    def steady_s(self) -> float | None:
        """The first input's latency once warm."""
        return self.inputs[0].steady_s if self.inputs else None

    def to_json(self) -> dict[str, Any]:
        """Return the report as it stands in a record."""
        inputs = [item.to_json() for item in self.inputs]
        return self._asdict() | {"work": self.work.to_json(), "inputs": inputs}


class Proof(NamedTuple):
    """The evidence that an artifact carries.

    Attributes:
        eager: the model without torch.compile; ``None`` when it could not be run that way.
        cold, warm: the capture, and the replay from the packed bytes.
        comparisons: warm output against cold output, per input.
        new_entries: cache files that the replay wrote, as paths: each is something that was not found.
        conditions: what was different in the replay (path, home, user, ...), for the reader.
        shortfalls: why the cache is not proved; empty when it is.
    """

    eager: RunReport | None
    cold: RunReport
    warm: RunReport
    comparisons: tuple[Comparison, ...]
    new_entries: tuple[str, ...]
    conditions: Mapping[str, str] = MappingProxyType({})
    shortfalls: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the cache is proved."""
        return not self.shortfalls

    @property
    def speedup(self) -> float:
        """Cold seconds to the first answer over warm ones."""
        return self.cold.first_answer_s / self.warm.first_answer_s if self.warm.first_answer_s else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the proof as it stands in a record."""
        return {
            "eager": self.eager.to_json() if self.eager else None,
            "cold": self.cold.to_json(),
            "warm": self.warm.to_json(),
            "comparisons": [item.to_json() for item in self.comparisons],
            "new_entries": list(self.new_entries),
            "conditions": dict(self.conditions),
            "shortfalls": list(self.shortfalls),
        }


class Demands(NamedTuple):
    """What a spec asks of a proof; ``inputs_key`` is what it calls its inputs."""

    max_compile_work: int
    output_tolerance: float
    inputs_key: str = "inputs"


def find_shortfalls(
    warm: RunReport, comparisons: Sequence[Comparison], new_entries: Sequence[str], demands: Demands
) -> tuple[str, ...]:
    """Say everything that speaks against the cache, most telling first; nothing means it is proved."""
    found: list[str] = []
    work = warm.work
    if work.total > demands.max_compile_work:
        names = _names(work.built or new_entries)
        found.append(f"the replay compiled again: {work.describe()}{names}")
    if new_entries and work.total <= demands.max_compile_work and demands.max_compile_work == 0:
        found.append(
            f"the replay wrote {len(new_entries)} cache entries that it did not find{_names(new_entries)}"
        )
    if work.fx_hits + work.aot_hits + work.triton_hits == 0:
        found.append("the replay used no cache entry at all")
    if work.blind_processes:
        found.append(
            f"{work.blind_processes} Python processes could not be watched (started with -I, -E or -S, or the probe failed there)"
        )
    for index, comparison in enumerate(comparisons):
        if not comparison.equal:
            found.append(
                f"{demands.inputs_key}[{index}]: output differs from the cold run: {comparison.reason}{_noise(warm, index)}"
            )
        elif not comparison.compared:
            found.append(f"{demands.inputs_key}[{index}]: the output holds nothing that can be compared")
    found += [
        f"{demands.inputs_key}[{index}]: the output was not compared"
        for index in range(len(comparisons), len(warm.inputs))
    ]
    return tuple(found)


def _noise(warm: RunReport, index: int) -> str:
    repeats = warm.inputs[index].repeats if index < len(warm.inputs) else None
    if repeats is None or repeats.equal:
        return ""
    return "; the model does not repeat itself within one process either: give it a seed as an input"


def _names(names: Sequence[str]) -> str:
    if not names:
        return ""
    more = f", and {len(names) - 3} more" if len(names) > 3 else ""
    return f" ({', '.join(names[:3])}{more})"


def comparison_from_json(value: Any) -> Comparison:
    """Read a comparison as agent/outputs.py and ``to_json`` write it.

    Raises:
        IntegrityError: a field is missing.
    """
    try:
        return Comparison(
            bool(value["equal"]), float(value["max_difference"]), int(value["compared"]), str(value["reason"])
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise IntegrityError("a record holds a comparison that cannot be read") from error


def run_report_from_json(value: Any) -> RunReport:
    """Read a run report.

    Raises:
        IntegrityError: a field is missing or of the wrong type.
    """
    try:
        inputs = tuple(
            InputRun(
                float(item["first_call_s"]),
                None if item.get("steady_s") is None else float(item["steady_s"]),
                comparison_from_json(item["repeats"]) if item.get("repeats") else None,
            )
            for item in value["inputs"]
        )
        return RunReport(
            float(value["ready_at_s"]),
            float(value["first_answer_s"]),
            float(value["warmed_at_s"]),
            inputs,
            compile_work_from_json(value["work"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise IntegrityError("a record holds a run report that cannot be read") from error


def proof_from_json(value: Any) -> Proof:
    """Read what ``Proof.to_json`` wrote.

    Raises:
        IntegrityError: a field is missing or of the wrong type.
    """
    try:
        return Proof(
            run_report_from_json(value["eager"]) if value.get("eager") else None,
            run_report_from_json(value["cold"]),
            run_report_from_json(value["warm"]),
            tuple(comparison_from_json(item) for item in value["comparisons"]),
            tuple(str(item) for item in value["new_entries"]),
            {str(k): str(v) for k, v in value["conditions"].items()},
            tuple(str(item) for item in value["shortfalls"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise IntegrityError("a record holds a proof that cannot be read") from error
