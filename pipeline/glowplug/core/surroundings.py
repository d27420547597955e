"""What a spec may refer to beyond its own file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from glowplug.core.spec import CogConfig, Override, Setting


@dataclass(frozen=True)
class Surroundings:
    """How to look up what a spec refers to.

    Attributes:
        environ: the variables behind ``${NAME}``.
        read_cog: reads ``cog.yaml`` in a folder that is given relative to the spec file; raises SpecError.
        file_digest: digest of a file that is given relative to the spec file; raises SpecError.
        overrides: what flags and variables say instead of the spec.
    """

    environ: Mapping[str, str]
    read_cog: Callable[[str], CogConfig]
    file_digest: Callable[[str], str]
    overrides: Mapping[Setting, Override] = field(default_factory=dict)
