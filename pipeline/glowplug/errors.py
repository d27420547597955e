"""Every way an operation can break: one tree, one exit code each (docs/reference/exit-codes.md).

An expected negative (no target fits, no tag yet) is a value where it is expected; it becomes one of these only
when it ends the command. The codes 64-78 and 125-128 are left to shells, sysexits and container runtimes.
"""

from __future__ import annotations


class GlowplugError(Exception):
    """A broken operation: what failed on which object (``str``), and what to do next (``hint``)."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(GlowplugError):
    """The command line asks for something that cannot be meant."""

    exit_code = 2


class SpecError(GlowplugError):
    """``glowplug.yaml`` is missing or invalid."""

    exit_code = 3


class NothingCapturedError(GlowplugError):
    """The model ran, but left no compile cache."""

    exit_code = 4


class ProofError(GlowplugError):
    """A restored cache compiled again, or the output differs."""

    exit_code = 5


class UnavailableError(GlowplugError):
    """A registry cannot be reached, or answers with a server error."""

    exit_code = 10


class DeniedError(GlowplugError):
    """A registry refuses these credentials, or this right."""

    exit_code = 11


class NotFoundError(GlowplugError):
    """The reference names nothing."""

    exit_code = 12


class NoCompatibleTargetError(GlowplugError):
    """The artifact exists, but nothing in it fits this host."""

    exit_code = 13


class IntegrityError(GlowplugError):
    """Bytes do not match their digest, or an archive is not what an artifact may hold."""

    exit_code = 20


class TrustError(GlowplugError):
    """A signature is missing or wrong."""

    exit_code = 21


class ModelRunError(GlowplugError):
    """The user's model failed while it was being run."""

    exit_code = 30


class EngineError(GlowplugError):
    """The place where the model should run is unavailable (no interpreter, no Docker engine)."""

    exit_code = 31


class ToolMissingError(GlowplugError):
    """A program or an optional Python package is not installed."""

    exit_code = 32
