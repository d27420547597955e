"""What every engine can do: run one command of the model's, in a folder that goes in before and comes out after."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from glowplug.core.workspace import Workspace


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
    """Where a model runs.

    Attributes:
        python: the model's Python, as the model's processes name it.
        environ: what the model's processes have before anyone adds to it.
        other_user: as whom ``Launch.as_other_user`` runs, in a few words.
        other_folder: what ``stand_in`` makes, in a few words.
    """

    @property
    def python(self) -> str: ...  # noqa: D102 - see above

    @property
    def environ(self) -> Mapping[str, str]: ...  # noqa: D102

    @property
    def other_user(self) -> str: ...  # noqa: D102

    @property
    def other_folder(self) -> str: ...  # noqa: D102

    def workspace(self, here: Path) -> Workspace:
        """Name the place where a run sees the folder ``here``; every call another one."""
        ...

    def search_path(self, wanted: str) -> str:
        """Return the ``PATH`` on which ``python`` means the model's Python."""
        ...

    def find_program(self, names: Sequence[str], path: str) -> str | None:
        """Return which of some programs is on a ``PATH``, the first one that is."""
        ...

    def stand_in(self, workspace: Workspace) -> PurePosixPath | None:
        """Make another working directory in which the model finds its files; ``None`` where it has but one."""
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
