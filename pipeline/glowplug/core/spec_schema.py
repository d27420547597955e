"""From what ``glowplug.yaml`` holds to a ``Spec``: the keys, their rules, and what to say of broken ones."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from glowplug.core.document import Document, Problems, Section, describe
from glowplug.core.interpolation import interpolate
from glowplug.core.reference import LayoutRepository, Repository, parse_repository
from glowplug.core.spec import (
    CogConfig,
    CogWorkload,
    FileVersion,
    GitVersion,
    LiteralVersion,
    ModelSpec,
    Override,
    ProveSpec,
    PythonWorkload,
    RunSpec,
    Setting,
    Spec,
    VersionSource,
    Workload,
    version_flaw,
)
from glowplug.errors import SpecError, UsageError

# Every key there is (docs/reference/spec.md). Inputs and environment variables have names of the user's own.
KEYS: Mapping[str, tuple[str, ...]] = {
    "": ("model", "run", "artifact", "prove"),
    "model": ("name", "version"),
    "model.version": ("git", "file"),
    "run": (
        *("cog", "weights", "python", "dir"),
        *("inputs", "interpreter", "env", "secrets", "timeout_s", "seed"),
    ),
    "prove": ("output_tolerance", "max_compile_work", "steady_runs"),
}

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TARGET = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")

# torch copies the values of variables with such names into its cache entries (torch/_dynamo/debug_utils.py).
_COPIED_BY_TORCH = ("TORCH", "DYNAMO", "INDUCTOR", "TRITON")

_MAX_SEED = 2**32 - 1  # what numpy.random.seed takes


@dataclass(frozen=True)
class Surroundings:
    """What a spec may refer to.

    Attributes:
        environ: the variables behind ``${NAME}``.
        read_cog: reads ``cog.yaml`` in a folder that is given relative to the spec file; raises SpecError.
        overrides: what flags and variables say instead of the spec.
    """

    environ: Mapping[str, str]
    read_cog: Callable[[str], CogConfig]
    overrides: Mapping[Setting, Override] = field(default_factory=dict)


def parse_spec(document: Document, surroundings: Surroundings) -> Spec:
    """Read a spec.

    Raises:
        SpecError: with one line for each problem there is.
    """
    problems = Problems(document)
    if not isinstance(document.values, Mapping):
        problems.add("", f"must be a mapping of keys to values, but is {describe(document.values)}")
        problems.raise_if_any()
    root = Section(problems, "", document.values, KEYS[""])
    parser = _Parser(root, problems, surroundings)
    run = parser.run()
    model = parser.model()
    artifact = parser.artifact()
    prove = parser.prove()
    problems.raise_if_any()
    return Spec(model, run, artifact, prove)


class _Parser:
    """Reads the sections. A part that is wrong is noted in ``problems`` and stands in as an empty value."""

    def __init__(self, root: Section, problems: Problems, surroundings: Surroundings) -> None:
        self._root = root
        self._problems = problems
        self._around = surroundings
        self._secrets: tuple[str, ...] = ()

    def model(self) -> ModelSpec:
        section = self._section("model", "write model: {name: flux-schnell, version: v3}")
        if section is None:
            return ModelSpec("", LiteralVersion(""))
        name = section.text("name") if section.require("name", "write one such as flux-schnell") else None
        if name is not None and not _NAME.fullmatch(name):
            section.add("name", f"'{name}' may hold only a-z, 0-9, '.', '_' and '-', at most 128 of them")
        return ModelSpec(name or "", self._version(section))

    def _version(self, section: Section) -> VersionSource:
        override = self._around.overrides.get("version")
        if override is not None:
            flaw = version_flaw(override.text)
            if flaw:
                self._problems.add_elsewhere(override.name, flaw)
            return LiteralVersion(override.text)
        if not section.require("version", 'write v3, "${GIT_SHA}", {git: describe} or {file: weights.bin}'):
            return LiteralVersion("")
        if isinstance(section.value("version"), Mapping):
            return self._version_from(section)
        text = self._interpolated(section, "version")
        flaw = version_flaw(text) if text is not None else None
        if flaw:
            section.add("version", flaw)
        return LiteralVersion(text or "")

    def _version_from(self, model: Section) -> VersionSource:
        source = model.mapping("version", KEYS["model.version"])
        nothing = LiteralVersion("")
        if source is None or len(source) != 1:
            model.add("version", "must name one source: {git: describe}, {git: commit} or {file: PATH}")
            return nothing
        if "file" in source:
            return FileVersion(source.text("file") or "")
        form = source.text("git")
        if form is not None and form not in ("describe", "commit"):
            source.add("git", f"must be describe or commit, but is {describe(form)}")
        return GitVersion("commit" if form == "commit" else "describe")

    def run(self) -> RunSpec:
        section = self._section("run", "write run: {python: mymodel:warm} or run: {cog: .}")
        if section is None:
            return RunSpec(PythonWorkload(""))
        self._secrets = self._read_secrets(section)
        timeout_s = section.number("timeout_s", 1)
        seed = section.integer("seed", 0, _MAX_SEED)
        return RunSpec(
            workload=self._workload(section),
            inputs=self._inputs(section),
            env=self._env(section),
            secrets=self._secrets,
            interpreter=section.text("interpreter"),
            timeout_s=RunSpec.timeout_s if timeout_s is None else float(timeout_s),
            seed=RunSpec.seed if seed is None else seed,
        )

    def _workload(self, section: Section) -> Workload:
        if "cog" in section and "python" in section:
            self._problems.add("run", "has both cog and python; keep one")
        elif "cog" in section:
            return self._cog(section)
        elif "python" in section:
            return self._python(section)
        else:
            self._problems.add("run", "names nothing to run; write python: mymodel:warm or cog: .")
        return PythonWorkload("")

    def _python(self, section: Section) -> PythonWorkload:
        target = section.text("python")
        if target is not None and not _TARGET.fullmatch(target):
            section.add("python", f"must look like module:callable, but is {describe(target)}")
        if "weights" in section:
            section.add("weights", "only a Cog predictor takes weights; pass them through inputs or env")
        return PythonWorkload(target or "", section.text("dir") or PythonWorkload.dir)

    def _cog(self, section: Section) -> CogWorkload:
        folder, weights = section.text("cog"), section.text("weights")
        if "dir" in section:
            section.add(
                "dir", "only a python workload has one; a Cog model runs in the folder of its cog.yaml"
            )
        config = CogConfig("")
        if folder is not None:
            try:
                config = self._around.read_cog(folder)
            except SpecError as error:
                for line in str(error).splitlines():
                    section.add("cog", line)
        return CogWorkload(folder or "", config.ref, config.environment, weights)

    def _inputs(self, section: Section) -> tuple[Any, ...]:
        items = section.items("inputs")
        if items is None:
            return RunSpec.inputs
        path = section.at("inputs")
        if not items:
            self._problems.add(path, "lists nothing; leave the key out for one call without arguments")
        for number, item in enumerate(items):
            here = f"{path}[{number}]"
            if item is None:
                self._problems.add(here, "is empty; write {} for a call without arguments")
            elif "cog" in section and not isinstance(item, Mapping):
                self._problems.add(here, f"must map a predictor's inputs to values, but is {describe(item)}")
            else:
                self._check_json(here, item)
        return tuple(items)

    def _check_json(self, path: str, value: Any) -> None:
        """Inputs reach the model as JSON; YAML can hold more than that."""
        if isinstance(value, Mapping):
            section = Section(self._problems, path, value)
            for key in section.names():
                self._check_json(section.at(key), section.value(key))
        elif isinstance(value, list):
            for number, item in enumerate(value):
                self._check_json(f"{path}[{number}]", item)
        elif isinstance(value, float) and not math.isfinite(value):
            self._problems.add(path, f"must be a finite number, but is {value}")
        elif not isinstance(value, str | int | float | None):
            self._problems.expected_text(path, value)

    def _env(self, section: Section) -> dict[str, str]:
        env = section.mapping("env") if section.given("env") else None
        if env is None:
            return {}
        for name in env.names():
            if not _VARIABLE.fullmatch(name):
                env.add(name, "is no name of an environment variable")
            if name in self._secrets:
                env.add(name, "is listed in run.secrets too; keep one")
        # A variable may be empty, which is not the same as unset.
        return {
            name: "" if env.value(name) == "" else self._interpolated(env, name) or "" for name in env.names()
        }

    def _read_secrets(self, section: Section) -> tuple[str, ...]:
        names = []
        for number, name in enumerate(section.items("secrets") or ()):
            here = f"{section.at('secrets')}[{number}]"
            if not isinstance(name, str):
                self._problems.expected_text(here, name)
            elif not _VARIABLE.fullmatch(name):
                self._problems.add(here, f"'{name}' is no name of an environment variable")
            elif name in names:
                self._problems.add(here, f"{name} is listed twice")
            elif any(word in name.upper() for word in _COPIED_BY_TORCH):
                self._problems.add(
                    here,
                    f"torch would write the value of {name} into the cache, as it does for every name with "
                    f"{', '.join(_COPIED_BY_TORCH)} in it; rename the variable",
                )
            else:
                names.append(name)
        return tuple(names)

    def artifact(self) -> Repository:
        override = self._around.overrides.get("artifact")
        nowhere = LayoutRepository("")
        try:
            if override is not None:
                return parse_repository(override.text)
            if not self._root.require("artifact", "write ghcr.io/acme/flux-cache or oci:./build/cache"):
                return nowhere
            text = self._interpolated(self._root, "artifact")
            return nowhere if text is None else parse_repository(text)
        except UsageError as error:
            message = f"{error}; {error.hint}"
            if override is not None:
                self._problems.add_elsewhere(override.name, message)
            else:
                self._root.add("artifact", message)
        return nowhere

    def prove(self) -> ProveSpec:
        section = self._root.mapping("prove", KEYS["prove"]) if self._root.given("prove") else None
        if section is None:
            return ProveSpec()
        tolerance = section.number("output_tolerance", 0)
        work = section.integer("max_compile_work", 0)
        steady_runs = section.integer("steady_runs", 1)
        return ProveSpec(
            ProveSpec.output_tolerance if tolerance is None else float(tolerance),
            ProveSpec.max_compile_work if work is None else work,
            ProveSpec.steady_runs if steady_runs is None else steady_runs,
        )

    def _section(self, key: str, advice: str) -> Section | None:
        if not self._root.require(key, advice) or not self._root.given(key):
            return None
        return self._root.mapping(key, KEYS[key])

    def _interpolated(self, section: Section, key: str) -> str | None:
        text = section.text(key)
        if text is None:
            return None
        replaced, flaws = interpolate(text, self._around.environ, self._secrets)
        for flaw in flaws:
            section.add(key, flaw)
        return None if flaws else replaced
