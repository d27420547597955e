"""What ``glowplug.yaml`` says, as values: a ``Spec`` that exists is valid (docs/reference/spec.md).

Paths stay as written, relative to the spec file; ``glowplug.build.spec_file`` knows where that file is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from glowplug.core.command_spec import CommandWorkload
from glowplug.core.image_spec import ImageSpec
from glowplug.core.oci import digest_of, encode
from glowplug.core.reference import Repository
from glowplug.core.target import slug

Origin = Literal["spec", "environment", "flag"]
Setting = Literal["version", "artifact"]
GitForm = Literal["describe", "commit"]

SETTINGS: tuple[Setting, ...] = ("version", "artifact")

# A tag is VERSION-GPUTYPE, at most 128 characters (distribution-spec). The longest GPU types known
# (``rtx-pro-6000-blackwell-max-q-workstation-edition-sm120``) need 54.
MAX_GPU_TYPE_LENGTH = 63
MAX_VERSION_LENGTH = 128 - 1 - MAX_GPU_TYPE_LENGTH


@dataclass(frozen=True)
class LiteralVersion:
    """The version is this text; environment variables in it are replaced already."""

    text: str


@dataclass(frozen=True)
class GitVersion:
    """The version is what git says about the spec's folder: ``describe`` a tag, or the full ``commit``."""

    form: GitForm


@dataclass(frozen=True)
class FileVersion:
    """The version is the sha256 of a file, or of a folder's files; ``path`` is relative to the spec file."""

    path: str


@dataclass(frozen=True)
class ImageVersion:
    """The version is the digest of the image that the model runs in."""


VersionSource = LiteralVersion | GitVersion | FileVersion | ImageVersion


@dataclass(frozen=True)
class ModelSpec:
    """Which model the cache is for."""

    name: str
    version_source: VersionSource


@dataclass(frozen=True)
class PythonWorkload:
    """A Python callable, called once per input.

    Attributes:
        target: ``module:callable``; both sides may be dotted.
        dir: its working directory, relative to the spec file.
    """

    target: str
    dir: str = "."


@dataclass(frozen=True)
class CogConfig:
    """What ``cog.yaml`` says about running: ``ref`` is ``predict.py:Predictor``."""

    ref: str
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CogWorkload:
    """A Cog predictor, predicting once per input.

    Attributes:
        dir: the folder of ``cog.yaml``, relative to the spec file.
        ref: ``predict.py:Predictor``, as ``cog.yaml`` names it; empty where the image's labels name it, which are
            read when the image is there (``glowplug.build.model_image``).
        environment: the variables that ``cog.yaml`` sets.
        weights: what ``setup(weights=...)`` gets, a path or a URL.
    """

    dir: str
    ref: str
    environment: Mapping[str, str] = field(default_factory=dict)
    weights: str | None = None


Workload = PythonWorkload | CogWorkload | CommandWorkload


@dataclass(frozen=True)
class RunSpec:
    """How the model is exercised.

    Attributes:
        workload: what is run.
        inputs: JSON values, one call each: an object is keyword arguments, an array positional arguments, any
            other a single argument. For a command they are its requests (``agent/command.py`` sends them): ``method``,
            ``path``, one body at most (``json``, ``body``, ``form``, ``files``), ``headers``, ``status``. Never empty.
        env: variables that the spec sets for the model.
        secrets: names of variables that the model gets and that are never recorded or printed.
        interpreter: the model's Python; ``None`` for the one on PATH (``python``, else ``python3``).
        timeout_s: how long one run of all inputs may take.
        seed: what the random generators are seeded with before each call.
        image: the image that the model runs in; ``None`` for this machine.
    """

    workload: Workload
    inputs: tuple[Any, ...] = ({},)
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    interpreter: str | None = None
    timeout_s: float = 3600.0
    seed: int = 0
    image: ImageSpec | None = None

    @property
    def inputs_key(self) -> str:
        """What the spec calls the inputs of such a workload."""
        return "requests" if isinstance(self.workload, CommandWorkload) else "inputs"

    @property
    def environment(self) -> dict[str, str]:
        """Every variable that the model gets besides the secrets: cog.yaml's, then the spec's over them."""
        if not isinstance(self.workload, CogWorkload):
            return dict(self.env)
        weights = {} if self.workload.weights is None else {"COG_WEIGHTS": self.workload.weights}
        return {**self.workload.environment, **self.env, **weights}


@dataclass(frozen=True)
class ProveSpec:
    """What a restored cache is held to.

    Attributes:
        output_tolerance: how far an output may be off, relative and absolute.
        max_compile_work: how many compilations may be left after a restore.
        steady_runs: how many calls per input are timed once everything is compiled.
    """

    output_tolerance: float = 1e-3
    max_compile_work: int = 0
    steady_runs: int = 3


@dataclass(frozen=True)
class Spec:
    """``glowplug.yaml``."""

    model: ModelSpec
    run: RunSpec
    artifact: Repository
    prove: ProveSpec = field(default_factory=ProveSpec)

    def digest(self) -> str:
        """Return the sha256 digest of everything that changes what is captured or proved.

        Left out: the model's name and version, where the artifact goes, the interpreter (its facts are in the
        target), time limits, how a server is found ready and stopped, and the values of secrets.
        """
        run = self.run
        return digest_of(
            encode(
                {
                    "workload": _captured(run.workload),
                    "inputs": run.inputs,
                    "env": dict(run.env),
                    "secrets": sorted(run.secrets),
                    "seed": run.seed,
                    "prove": asdict(self.prove),
                }
            )
        )


def _captured(workload: Workload) -> dict[str, Any]:
    if isinstance(workload, CommandWorkload):
        return {"command": workload.captured()}
    return {"python" if isinstance(workload, PythonWorkload) else "cog": asdict(workload)}


@dataclass(frozen=True)
class Overrides:
    """What flags say instead of the spec; ``None`` where no flag was given."""

    version: str | None = None
    artifact: str | None = None


@dataclass(frozen=True)
class Override:
    """A text that stands in for what the spec says; ``name`` is ``--version`` or ``GLOWPLUG_VERSION``."""

    text: str
    origin: Origin
    name: str


def settle(overrides: Overrides, environ: Mapping[str, str]) -> dict[Setting, Override]:
    """Decide what replaces the spec's own values: a flag before a variable, and an empty variable is none."""
    settled: dict[Setting, Override] = {}
    for setting in SETTINGS:
        flag: str | None = getattr(overrides, setting)
        variable = f"GLOWPLUG_{setting.upper()}"
        if flag is not None:
            settled[setting] = Override(flag, "flag", f"--{setting}")
        elif environ.get(variable):
            settled[setting] = Override(environ[variable], "environment", variable)
    return settled


def version_tag(version: str) -> str:
    """Return the tag of a version's index, which is also how the tags of its artifacts start."""
    return slug(version)


def version_flaw(version: str) -> str | None:
    """Return why ``version`` cannot name an artifact, or ``None`` when it can."""
    tag = version_tag(version)
    if not version.strip():
        return "is empty"
    if not version.isprintable():
        return f"{version!r} holds characters that cannot be printed"
    if not tag:
        return f"'{version}' holds no letter and no digit, of which a tag could be made"
    if len(tag) > MAX_VERSION_LENGTH:
        return (
            f"is {len(tag)} characters long, which leaves no room for the GPU type in a tag; "
            f"use at most {MAX_VERSION_LENGTH}"
        )
    return None
