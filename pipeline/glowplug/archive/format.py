"""What packing and unpacking agree on (docs/reference/artifact-format.md)."""

from __future__ import annotations

import posixpath

FOLDER = "glowplug"
"""The one folder below which all entries of an artifact live."""

TITLE = "org.opencontainers.image.title"
UNPACK = "io.deis.oras.content.unpack"
CONTENT_DIGEST = "io.deis.oras.content.digest"

MAX_LAYERS = 16
"""Of one artifact. More connections than this gained nothing in any pull that was measured."""


def title(position: int) -> str:
    """Return the title of an artifact's layer number ``position``: ``glowplug`` and so many slashes.

    oras unpacks a layer into the folder of its title and wants all titles to differ; it cleans the path only
    after comparing, so slashes tell apart what is one folder.
    """
    return FOLDER + "/" * position


def link_target(path: str, goal: str) -> str:
    """Return the text of a symbolic link at ``path`` to ``goal``, both relative to one folder."""
    # Made absolute, since posixpath otherwise asks for the working directory, which may be gone.
    return posixpath.relpath(f"/{goal}", f"/{posixpath.dirname(path)}")
