"""What the numbers have to be, and how they are shown. Ratios of one run: the machine's speed cancels out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from measure import Measured


@dataclass(frozen=True)
class Bound:
    """A limit; ``at_least`` tells which side is good."""

    limit: float
    at_least: bool = False

    def met_by(self, value: float) -> bool:
        """Whether a value is on the good side."""
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.limit:g}"


@dataclass(frozen=True)
class Ratio:
    """The seconds of one case over those of another."""

    name: str
    over: str
    under: str
    bound: Bound | None

    def value(self, cases: Mapping[str, Measured], quantity: str = "wall_s") -> float:
        """Return the ratio of the medians, which the bound is for; or that of another quantity."""
        return cases[self.over].median(quantity) / cases[self.under].median(quantity)


@dataclass(frozen=True)
class Value:
    """A figure that is no ratio."""

    name: str
    value: float
    unit: str
    bound: Bound | None


FETCH = "glowplug fetch"
RATIOS = (
    Ratio("oras-py / fetch, tmpfs", "oras-py pull, tmpfs", f"{FETCH}, tmpfs", Bound(3.5, at_least=True)),
    Ratio("curl to tar xz / fetch, tmpfs", "curl to tar xz, tmpfs", f"{FETCH}, tmpfs", Bound(2.5, at_least=True)),
    Ratio("curl to tar xz of one layer / fetch, tmpfs", "curl to tar xz of one layer, tmpfs", f"{FETCH}, tmpfs", Bound(2.5, at_least=True)),
    Ratio("skopeo + tar / fetch, tmpfs", "skopeo copy + tar, tmpfs", f"{FETCH}, tmpfs", None),
    Ratio("fetch / cp -r, tmpfs", f"{FETCH}, tmpfs", "cp -r, tmpfs", Bound(2.0)),
    Ratio("oras-py / fetch, disk", "oras-py pull, disk", f"{FETCH}, disk", None),
    Ratio("curl to tar xz / fetch, disk", "curl to tar xz, disk", f"{FETCH}, disk", None),
    Ratio("curl to tar xz of one layer / fetch, disk", "curl to tar xz of one layer, disk", f"{FETCH}, disk", None),
    Ratio("skopeo + tar / fetch, disk", "skopeo copy + tar, disk", f"{FETCH}, disk", None),
    Ratio("fetch / cp -r, disk", f"{FETCH}, disk", "cp -r, disk", None),
    Ratio("fetch / 8 curls to /dev/null, 50 MB/s and 30 ms", f"{FETCH}, throttled", "8 curls to /dev/null, throttled", Bound(2.0)),
    Ratio("tarfile / unpack, 20,000 files", "tarfile with the data filter, small files", "glowplug unpack, small files", Bound(4.0, at_least=True)),
    Ratio("curl to tar xz / fetch, 60,000 files", "curl to tar xz, large", f"{FETCH}, large", None),
    Ratio("fetch / tar x, 60,000 files", f"{FETCH}, large", "tar x, large", Bound(2.0)),
)  # fmt: skip


def ratios_of(cases: Mapping[str, Measured]) -> list[Ratio]:
    """Return the ratios whose cases were measured."""
    return [ratio for ratio in RATIOS if ratio.over in cases and ratio.under in cases]


def to_json(cases: Mapping[str, Measured], values: Iterable[Value]) -> dict[str, Any]:
    """Return every figure by name, each with its target and what it was made of."""
    ratios = {
        ratio.name: _judged(ratio.value(cases), ratio.bound)
        | {
            "cpu_value": round(ratio.value(cases, "cpu_s"), 4),
            "over": cases[ratio.over].to_json("wall_s"),
            "under": cases[ratio.under].to_json("wall_s"),
        }
        for ratio in ratios_of(cases)
    }
    quantities = ("wall_s", "cpu_s", "peak_rss_bytes")
    return {
        "ratios": ratios,
        "values": {value.name: _judged(value.value, value.bound) | {"unit": value.unit} for value in values},
        "cases": {name: [case.to_json(quantity) for quantity in quantities] for name, case in cases.items()},
    }


def _judged(value: float, bound: Bound | None) -> dict[str, Any]:
    if bound is None:
        return {"value": round(value, 4)}
    return {"value": round(value, 4), "target": str(bound), "met": bound.met_by(value)}


def table(cases: Mapping[str, Measured], values: Iterable[Value]) -> str:
    """Return the figures as a Markdown table."""
    rows: list[tuple[str, ...]] = [
        ("what", "value", "target", "", "seconds", "CPU seconds"),
        ("---", "---:", "---", "---", "---", "---"),
    ]
    for ratio in ratios_of(cases):
        value, pair = ratio.value(cases), (cases[ratio.over], cases[ratio.under])
        medians = [" / ".join(f"{case.median(name):.2f}" for case in pair) for name in ("wall_s", "cpu_s")]
        rows.append((ratio.name, f"{value:.2f}", *_verdict(value, ratio.bound), *medians))
    rows += [
        (figure.name, f"{figure.value:.4g} {figure.unit}", *_verdict(figure.value, figure.bound), "", "")
        for figure in values
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    )


def _verdict(value: float, bound: Bound | None) -> tuple[str, str]:
    if bound is None:
        return "", ""
    return str(bound), "met" if bound.met_by(value) else "not met"
