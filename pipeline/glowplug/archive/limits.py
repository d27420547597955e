"""How much an archive may ask for: far more than any real cache does."""

from __future__ import annotations

from typing import NamedTuple

_MIB = 1024 * 1024
_GIB = 1024 * _MIB


class Limits(NamedTuple):
    """Bounds on one artifact.

    Attributes:
        entries: files, links and folders, over all layers.
        total_bytes: uncompressed archives, over all layers.
        file_bytes: one file.
        rewritten_bytes: one file that is rewritten for its new place, which happens in memory.
        ratio: uncompressed size over compressed size of a layer; a large cache has 4, its most
            repetitive file about 12, and deflate cannot exceed 1032.
        ratio_floor_bytes: what a layer may unpack to whatever its ratio.
        name_bytes: one component of a path (``NAME_MAX`` of Linux file systems).
        path_bytes: one path.
        depth: components of a path.
    """

    entries: int = 250_000
    total_bytes: int = 64 * _GIB
    file_bytes: int = 8 * _GIB - 1
    rewritten_bytes: int = 4 * _MIB
    ratio: int = 200
    ratio_floor_bytes: int = 16 * _MIB
    name_bytes: int = 255
    path_bytes: int = 1024
    depth: int = 32


LIMITS = Limits()
