"""Every way an operation can break: one tree, one exit code each (docs/reference/exit-codes.md).

An expected negative (no target fits, no tag yet) is a value where it is expected; it becomes one of these only
when it ends the command. The codes 64-78 and 125-128 are left to shells, sysexits and container runtimes.
"""

from __future__ import annotations


class GlowplugError(Exception):
    """A broken operation: what failed on which object (``str``), and what to do next (``hint``).

    ``next_step`` is the hint of an error that has none of its own.
    """

    exit_code = 1
    next_step = "look at the disk, the permissions and the limits of this machine; then try again"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint or self.next_step


class UsageError(GlowplugError):
    """The command line asks for something that cannot be meant."""

    exit_code = 2
    next_step = "'glowplug --help' lists the commands, 'glowplug COMMAND --help' their options"


class SpecError(GlowplugError):
    """``glowplug.yaml`` is missing or invalid."""

    exit_code = 3
    next_step = "correct it and build again; every key is described in docs/reference/spec.md of the project"


class NothingCapturedError(GlowplugError):
    """The model ran, but left no compile cache."""

    exit_code = 4
    next_step = "the model has to call what torch.compile returned, with its caches switched on"


class ProofError(GlowplugError):
    """A restored cache compiled again, or the output differs."""

    exit_code = 5
    next_step = "fix what differs between two starts of the model"


class UnavailableError(GlowplugError):
    """A registry cannot be reached, or answers with a server error."""

    exit_code = 10
    next_step = "see whether the name is right, and whether it can be reached from this machine"


class DeniedError(GlowplugError):
    """A registry refuses these credentials, or this right."""

    exit_code = 11
    next_step = "give these credentials, or this user, the right to it"


class NotFoundError(GlowplugError):
    """The reference names nothing."""

    exit_code = 12
    next_step = "look for a misspelt name"


class NoCompatibleTargetError(GlowplugError):
    """The artifact exists, but nothing in it fits this host."""

    exit_code = 13
    next_step = "build on a machine like this one"


class IntegrityError(GlowplugError):
    """Bytes do not match their digest, or an archive is not what an artifact may hold."""

    exit_code = 20
    next_step = "it is damaged or was tampered with: delete it, and build it again"


class TrustError(GlowplugError):
    """A signature is missing or wrong."""

    exit_code = 21
    next_step = "have it signed by someone who is trusted here"


class ModelRunError(GlowplugError):
    """The user's model failed while it was being run."""

    exit_code = 30
    next_step = "run the model by itself, and see whether it works"


class EngineError(GlowplugError):
    """The place where the model should run is unavailable (no interpreter, no Docker engine)."""

    exit_code = 31
    next_step = "name the interpreter that runs the model in run.interpreter"


class ToolMissingError(GlowplugError):
    """A program or an optional Python package is not installed."""

    exit_code = 32
    next_step = "install it"
