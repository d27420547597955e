"""One folder under two names: ours, and the model's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath


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
