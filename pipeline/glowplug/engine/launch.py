"""What every engine can do: run one command of the model's, in a folder that goes in before and comes out after."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol


@dataclass(frozen=True)
class Workspace:
    """A run's own folder.

    Attributes:
        here: where we read and write it.
        seen_at: where the model's processes see it.
    """

    here: Path
    seen_at: PurePosixPath

    def seen(self, path: Path) -> PurePosixPath:
        """Return how the model's processes call ``path``, which lies in this folder."""
        return self.seen_at / path.relative_to(self.here)


@dataclass(frozen=True)
class Launch:
    """One command to run.

    Attributes:
        argv: the command; its first word is looked up on ``env``'s PATH.
        env: what the engine's own environment is given or overruled with.
        workspace: its content is there when the command starts, and here when it has ended, however it ended.
        writable: folders in the workspace that the command writes to, with all that is in them.
        log: file that gets its stdout and stderr.
        timeout_s: how long it may take.
        cwd: its working directory; ``None`` for the model's own folder.
        as_other_user: whether it runs as a user who owns nothing but what is writable.
        watched: small writable folders that ``on_tick`` looks at.
        scratch: writable folders whose content nobody needs afterwards.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    workspace: Workspace
    writable: tuple[Path, ...]
    log: Path
    timeout_s: float
    cwd: PurePosixPath | None = None
    as_other_user: bool = False
    watched: tuple[Path, ...] = ()
    scratch: tuple[Path, ...] = ()


class Engine(Protocol):
    """Where a model runs."""

    def workspace(self, here: Path) -> Workspace:
        """Name the place where a run sees the folder ``here``; every call another one."""
        ...

    def run(self, launch: Launch, on_tick: Callable[[float], None]) -> int:
        """Run a command to its end and return its exit status (negative: the signal that killed it).

        Nothing that it started outlives this call, also when that is interrupted. ``on_tick`` is called some times a second with the
        elapsed seconds; what the command wrote meanwhile may be in ``launch.workspace.here`` by then, or not yet.

        Raises:
            EngineError: the command cannot be started.
            ModelRunError: it was still running after ``timeout_s``, and was stopped.
        """
        ...
