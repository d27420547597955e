"""From what ``glowplug.yaml`` holds to a ``Spec``: the keys, their rules, and what to say of broken ones."""

from __future__ import annotations

import re
from collections.abc import Mapping

from glowplug.core.command_schema import COMMAND_KEYS
from glowplug.core.document import Document, Problems, Section, describe
from glowplug.core.image_schema import DOCKER_KEYS
from glowplug.core.interpolation import interpolated
from glowplug.core.reference import LayoutRepository, Repository, parse_repository
from glowplug.core.run_schema import RUN_KEYS, parse_run
from glowplug.core.spec import (
    FileVersion,
    GitVersion,
    ImageVersion,
    LiteralVersion,
    ModelSpec,
    ProveSpec,
    PythonWorkload,
    RunSpec,
    Spec,
    VersionSource,
    version_flaw,
)
from glowplug.core.surroundings import Surroundings
from glowplug.errors import UsageError

# Every key there is (docs/reference/spec.md). Inputs, variables, headers and forms have names of the user's own.
KEYS: Mapping[str, tuple[str, ...]] = {
    "": ("model", "run", "artifact", "prove"),
    "model": ("name", "version"),
    "model.version": ("git", "file", "image"),
    "run": RUN_KEYS,
    **COMMAND_KEYS,
    "run.docker": DOCKER_KEYS,
    "prove": ("output_tolerance", "max_compile_work", "steady_runs"),
}

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")


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
        self._in_image = False

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
            model.add(
                "version",
                "must name one source: {git: describe}, {git: commit}, {file: PATH} or {image: digest}",
            )
            return nothing
        if "image" in source:
            return self._version_of_image(source)
        if "file" in source:
            return FileVersion(source.text("file") or "")
        form = source.text("git")
        if form is not None and form not in ("describe", "commit"):
            source.add("git", f"must be describe or commit, but is {describe(form)}")
        return GitVersion("commit" if form == "commit" else "describe")

    def _version_of_image(self, source: Section) -> VersionSource:
        form = source.text("image")
        if form is not None and form != "digest":
            source.add("image", f"must be digest, but is {describe(form)}")
        if not self._in_image:
            source.add("image", "is the digest of run.image, but the model runs in none")
        return ImageVersion()

    def run(self) -> RunSpec:
        section = self._section("run", "write run: {python: mymodel:warm} or run: {cog: .}")
        if section is None:
            return RunSpec(PythonWorkload(""))
        run = parse_run(section, self._problems, self._around)
        self._secrets = run.secrets
        self._in_image = run.image is not None
        return run

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
        return interpolated(section, key, self._around.environ, self._secrets)
