"""What was found out about a machine and the interpreter that will run the model."""

from __future__ import annotations

from typing import Any, NamedTuple

from glowplug.core.target import Target, target_from_json
from glowplug.errors import IntegrityError


class Facts(NamedTuple):
    """A target, and what is worth recording beside it although no cache key holds it.

    Attributes:
        target: what decides whether a cache fits.
        device_count: GPUs that the model can see; 0 on a CPU.
        driver: the GPU driver's version, empty without one.
        cpu_model: the processor's marketing name.
        notes: what may surprise, in sentences: a driver that does not answer, GPUs of several kinds.
    """

    target: Target
    device_count: int = 0
    driver: str = ""
    cpu_model: str = ""
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the facts as they stand in a record."""
        return self._asdict() | {"target": self.target.to_json()}


def facts_from_json(value: Any) -> Facts:
    """Read what ``Facts.to_json`` wrote; more keys may be there.

    Raises:
        IntegrityError: it is something else.
    """
    try:
        return Facts(
            target_from_json(value["target"]),
            int(value["device_count"]),
            str(value["driver"]),
            str(value["cpu_model"]),
            tuple(map(str, value["notes"])),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise IntegrityError("these are no facts of a machine") from error
