"""Receipts: which artifact was put in place on a node, when, and where its bytes came from."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from glowplug import __version__


class Receipt(NamedTuple):
    """One artifact that was put in place.

    Attributes:
        reference: what was asked for.
        digest: of the manifest that was chosen.
        target: the GPU type that it is for.
        bytes_from: bytes by the host that they came from; what was on the node already is under ``store``.
        time: when, in seconds since the epoch.
    """

    reference: str
    digest: str
    target: str
    bytes_from: Mapping[str, int]
    time: float

    def file_name(self) -> str:
        """Return a name that no other receipt has, and that sorts by time."""
        created = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self.time))
        return f"{created}-{self.digest.removeprefix('sha256:')[:12]}-{os.urandom(4).hex()}.json"

    def to_json(self) -> dict[str, Any]:
        """Return what is written down."""
        return {
            "reference": self.reference,
            "digest": self.digest,
            "target": self.target,
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.time)),
            "glowplug": __version__,
            "bytes_from": dict(self.bytes_from),
        }
