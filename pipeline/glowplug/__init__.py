"""Build-time cache pipeline for torch.compile models: capture, prove, publish, fetch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glowplug.boot.prefetch import Prefetch, prefetch

__version__ = "0.1.0"

__all__ = ["Prefetch", "__version__", "prefetch"]


def __getattr__(name: str) -> Any:
    """Import the Python interface when it is used: a command line that starts in a container needs none of it."""
    if name in ("Prefetch", "prefetch"):
        from glowplug.boot import prefetch as module  # noqa: PLC0415

        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
