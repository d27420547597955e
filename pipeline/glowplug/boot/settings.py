"""Settings of the environment that are numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from glowplug.report.console import Console


class Setting(NamedTuple):
    """A variable, and what counts without it.

    Attributes:
        variable: its name.
        default: in its unit.
        unit: what it counts, in the plural.
    """

    variable: str
    default: float
    unit: str

    def read(self, environ: Mapping[str, str], console: Console) -> float:
        """Return a finite number that is not negative; anything else is no reason not to start a server."""
        text = environ.get(self.variable, "")
        try:
            value = float(text or self.default)
        except ValueError:
            value = -1.0
        if 0 <= value < float("inf"):
            return value
        console.warn(f"{self.variable} is no number of {self.unit}: {text}; using {self.default:.12g}")
        return self.default
