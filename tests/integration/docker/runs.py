"""How tests run a command through the Docker engine."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glowplug.core.image_spec import ImageSpec
from glowplug.engine.docker.engine import DockerEngine, DockerModel, docker_engine
from glowplug.engine.launch import Launch
from integration.docker.daemon import DockerService
from integration.docker.images import TORCH


@dataclass(frozen=True)
class Done:
    """What one run left.

    Attributes:
        status: of the command.
        out, log: folder that it wrote to, and what it printed.
    """

    status: int
    out: Path
    log: str


@dataclass
class Runs:
    """Runs Python code in a new container of an image.

    Attributes:
        docker: the engine.
        folder: the spec's, and everything else's.
        spec: what is said besides the image.
    """

    docker: DockerService
    folder: Path
    spec: Mapping[str, Any] = field(default_factory=lambda: {"network": "host"})
    _count: int = 0

    @contextlib.contextmanager
    def engine(self, image: str = TORCH, **spec: Any) -> Iterator[DockerEngine]:
        """Open the engine as a build does."""
        wanted = ImageSpec(image, **{**self.spec, **spec})
        with docker_engine(DockerModel(wanted, self.folder), self.docker.environ, print) as engine:
            yield engine

    def python(self, code: str, image: str = TORCH, **spec: Any) -> Done:
        """Open the engine and run code there."""
        with self.engine(image, **spec) as engine:
            return self.within(engine, code)

    def within(
        self,
        engine: DockerEngine,
        code: str,
        on_tick: Callable[[float], None] = lambda _elapsed_s: None,
        **launch: Any,
    ) -> Done:
        """Run code that finds ``workspace`` and the folder ``out`` in it."""
        wanted = self.launch(engine, code, **launch)
        status = engine.run(wanted, on_tick)
        return Done(status, wanted.workspace.here / "out", wanted.log.read_text())

    def launch(self, engine: DockerEngine, code: str, **launch: Any) -> Launch:
        """Prepare to run code."""
        self._count += 1
        here = self.folder / f"run{self._count}"
        out = here / "out"
        out.mkdir(parents=True)
        (here / "script.py").write_text(
            f"import os, pathlib, sys, time\nworkspace = pathlib.Path(__file__).parent\nout = workspace / 'out'\n{code}\n"
        )
        workspace = engine.workspace(here)
        return Launch(
            **{
                "argv": (engine.python, str(workspace.seen(here / "script.py"))),
                "env": {},
                "workspace": workspace,
                "writable": (out,),
                "log": self.folder / f"run{self._count}.log",
                "timeout_s": 60.0,
                "watched": (out,),
                **launch,
            }
        )
