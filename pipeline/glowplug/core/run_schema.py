"""The ``run`` section of ``glowplug.yaml``: what is run, with which inputs, in which environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from glowplug.core.command_schema import parse_command
from glowplug.core.document import Problems, Section, check_json, describe
from glowplug.core.image_schema import parse_image
from glowplug.core.interpolation import interpolated
from glowplug.core.request_schema import parse_requests
from glowplug.core.spec import CogConfig, CogWorkload, PythonWorkload, RunSpec, Workload
from glowplug.core.surroundings import Surroundings
from glowplug.errors import SpecError

RUN_KEYS: tuple[str, ...] = (
    *("cog", "weights", "python", "dir"),
    *("command", "url", "ready", "requests", "stop", "ignore"),
    *("inputs", "interpreter", "env", "secrets", "timeout_s", "seed"),
    *("image", "docker"),
)

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TARGET = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")

# torch copies the values of variables with such names into its cache entries (torch/_dynamo/debug_utils.py).
_COPIED_BY_TORCH = ("TORCH", "DYNAMO", "INDUCTOR", "TRITON")

_MAX_SEED = 2**32 - 1  # what numpy.random.seed takes

_KINDS = ("cog", "python", "command")
_ONLY_COMMAND = "only a command has it"
# Keys that not every workload has: which do, and what to say to the others.
_OWNERS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "weights": (("cog",), "only a Cog predictor takes weights; pass them through inputs or env"),
    "dir": (("python", "command"), "a Cog model runs in the folder of its cog.yaml; leave dir out"),
    "inputs": (("cog", "python"), "a command is asked by requests; write requests instead"),
    "seed": (("cog", "python"), "a server cannot be seeded from outside; put a seed into each request"),
    "requests": (("command",), "only a command is asked by requests; write inputs instead"),
    **dict.fromkeys(("url", "ready", "stop", "ignore"), (("command",), _ONLY_COMMAND)),
}


def parse_run(section: Section, problems: Problems, around: Surroundings) -> RunSpec:
    """Read the section; a part that is wrong is noted in ``problems`` and stands in as an empty value."""
    return _Parser(section, problems, around).run()


class _Parser:
    def __init__(self, section: Section, problems: Problems, around: Surroundings) -> None:
        self._section = section
        self._problems = problems
        self._around = around
        self._secrets: tuple[str, ...] = ()

    def run(self) -> RunSpec:
        self._secrets = self._read_secrets()
        timeout_s = self._section.number("timeout_s", 1)
        seed = self._section.integer("seed", 0, _MAX_SEED)
        return RunSpec(
            workload=self._workload(),
            inputs=self._inputs(),
            env=self._env(),
            secrets=self._secrets,
            interpreter=self._section.text("interpreter"),
            timeout_s=RunSpec.timeout_s if timeout_s is None else float(timeout_s),
            seed=RunSpec.seed if seed is None else seed,
            image=parse_image(self._section, self._problems, self._around.environ, self._secrets),
        )

    def _workload(self) -> Workload:
        kinds = self._kinds()
        if len(kinds) > 1:
            self._problems.add("run", f"has both {' and '.join(kinds)}; keep one")
            return PythonWorkload("")
        if not kinds:
            self._problems.add(
                "run", "names nothing to run; write python: mymodel:warm, cog: . or command: [...]"
            )
            return PythonWorkload("")
        for key, (owners, advice) in _OWNERS.items():
            if key in self._section and kinds[0] not in owners:
                self._section.add(key, advice)
        if kinds == ["command"]:
            return parse_command(self._section, self._problems, self._around.environ, self._secrets)
        return self._cog() if kinds == ["cog"] else self._python()

    def _kinds(self) -> list[str]:
        """Return the kinds of workload that are named; an image alone is one of Cog's, whose labels name the predictor."""
        named = [kind for kind in _KINDS if kind in self._section]
        return named or (["cog"] if "image" in self._section else [])

    def _python(self) -> PythonWorkload:
        target = self._section.text("python")
        if target is not None and not _TARGET.fullmatch(target):
            self._section.add("python", f"must look like module:callable, but is {describe(target)}")
        return PythonWorkload(target or "", self._section.text("dir") or PythonWorkload.dir)

    def _cog(self) -> CogWorkload:
        folder, weights = self._section.text("cog"), self._section.text("weights")
        config = CogConfig("")
        if folder is not None:
            try:
                config = self._around.read_cog(folder)
            except SpecError as error:
                for line in str(error).splitlines():
                    self._section.add("cog", line)
        return CogWorkload(folder or ".", config.ref, config.environment, weights)

    def _inputs(self) -> tuple[Any, ...]:
        if "command" in self._section:
            return parse_requests(self._section, self._problems, self._around, self._secrets)
        items = self._section.items("inputs")
        if items is None:
            return RunSpec.inputs
        path = self._section.at("inputs")
        if not items:
            self._problems.add(path, "lists nothing; leave the key out for one call without arguments")
        for number, item in enumerate(items):
            here = f"{path}[{number}]"
            if item is None:
                self._problems.add(here, "is empty; write {} for a call without arguments")
            elif self._kinds() == ["cog"] and not isinstance(item, Mapping):
                self._problems.add(here, f"must map a predictor's inputs to values, but is {describe(item)}")
            else:
                check_json(self._problems, here, item)
        return tuple(items)

    def _env(self) -> dict[str, str]:
        env = self._section.mapping("env") if self._section.given("env") else None
        if env is None:
            return {}
        for name in env.names():
            if not _VARIABLE.fullmatch(name):
                env.add(name, "is no name of an environment variable")
            if name in self._secrets:
                env.add(name, "is listed in run.secrets too; keep one")
        # A variable may be empty, which is not the same as unset.
        return {
            name: ""
            if env.value(name) == ""
            else interpolated(env, name, self._around.environ, self._secrets) or ""
            for name in env.names()
        }

    def _read_secrets(self) -> tuple[str, ...]:
        names = []
        for number, name in enumerate(self._section.items("secrets") or ()):
            here = f"{self._section.at('secrets')}[{number}]"
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
