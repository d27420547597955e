"""How patient and how strict a connection is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from glowplug.errors import UnavailableError

CONNECT_TIMEOUT_S = 5.0
# Silence on a connection, not the length of a transfer; a registry that stores a pushed blob is silent too.
READ_TIMEOUT_S = 30.0
# With the pauses of retry.py, a registry that refuses connections is given up after about two seconds.
RETRIES = 3


class Options(NamedTuple):
    """What a caller may decide about a connection.

    Attributes:
        timeout_s: budget in seconds for everything between opening and closing, retries and tokens included;
            ``None`` leaves only the limits on silence below.
        connect_timeout_s: longest wait for a connection.
        read_timeout_s: longest silence on a connection.
        retries: how often one request is repeated after a failure that may pass.
        plain_http: allow HTTP for hosts that are not this machine.
        login_variables: whether GLOWPLUG_USERNAME and GLOWPLUG_PASSWORD are meant for this registry, as they are for
            the one that a user names.
    """

    timeout_s: float | None = None
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    read_timeout_s: float = READ_TIMEOUT_S
    retries: int = RETRIES
    plain_http: bool = False
    login_variables: bool = True


DEFAULT = Options()


class Deadline:
    """The moment when a budget of ``timeout_s`` seconds, counted from construction, is spent."""

    def __init__(self, timeout_s: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._timeout_s = timeout_s
        self._clock = clock
        self._end = float("inf") if timeout_s is None else clock() + timeout_s

    def left_s(self, what: str) -> float:
        """Return the seconds that are left (infinite without a budget).

        Raises:
            UnavailableError: none are; ``what`` names the operation that ran out of time.
        """
        left_s = self.left_or_zero_s()
        if left_s == 0:
            raise UnavailableError(
                f"{what} did not finish within {self._timeout_s:g} s",
                hint="raise the timeout, or look at the network",
            )
        return left_s

    def left_or_zero_s(self) -> float:
        """Return the seconds that are left, zero when none are."""
        return max(0.0, self._end - self._clock())
