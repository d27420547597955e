"""Failures that may pass, and how long to wait for that."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from glowplug.errors import UnavailableError
from glowplug.registry.options import Deadline

FIRST_PAUSE_S = 0.25
# A cache that comes later than this has no point: the container would be warm by itself.
MAX_PAUSE_S = 15.0

T = TypeVar("T")


class TransientError(UnavailableError):
    """A registry is unavailable in a way that may pass; ``retry_after_s`` is its own advice, if any."""

    def __init__(self, message: str, *, hint: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


def pause_s(attempt: int, retry_after_s: float | None, jitter: float) -> float:
    """Return how long to wait after try ``attempt`` (from 0); ``jitter`` in [0, 1) keeps clients apart."""
    pause: float = FIRST_PAUSE_S * 2**attempt * (0.5 + jitter)
    return max(pause, retry_after_s or 0.0)


def wait(attempt: int, error: TransientError, deadline: Deadline) -> None:
    """Sleep before the next try, or raise ``error`` when the wait is not worth it."""
    pause = pause_s(attempt, error.retry_after_s, random.random())  # noqa: S311
    if pause > min(MAX_PAUSE_S, deadline.left_or_zero_s()):
        raise error
    time.sleep(pause)


def retried(operation: Callable[[], T], retries: int, deadline: Deadline) -> T:
    """Run ``operation``, again after each ``TransientError``, at most ``retries`` times more."""
    for attempt in range(retries):
        try:
            return operation()
        except TransientError as error:
            wait(attempt, error, deadline)
    return operation()
