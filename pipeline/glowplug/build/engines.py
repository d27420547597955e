"""Which engine a spec's model runs on, and what that says of the target."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from glowplug.build.image_facts import gather_facts_in_image
from glowplug.build.model_image import settle_image
from glowplug.build.spec_file import LoadedSpec
from glowplug.core.contract import scrub
from glowplug.core.facts import Facts
from glowplug.engine.docker.engine import DockerModel, docker_engine
from glowplug.engine.launch import Engine
from glowplug.engine.local import LocalEngine
from glowplug.errors import EngineError
from glowplug.host.facts import gather_facts
from glowplug.report.console import Console, size_text

_ROOT_ONLY_DATA = {"HF_HOME": ".cache/huggingface", "TORCH_HOME": ".cache/torch"}


@contextmanager
def open_engine(
    loaded: LoadedSpec, environ: Mapping[str, str], work: Path, console: Console, pretended: Mapping[str, str]
) -> Iterator[tuple[LoadedSpec, Engine, Facts]]:
    """Find the engine of the spec's model, what its image says of the spec, and the machine's facts as the model sees them.

    Args:
        loaded: the spec.
        environ: the environment that the command was started in.
        work: the build's own folder.
        console: where to say what happens.
        pretended: target fields to pretend, by name.

    Raises:
        EngineError: there is no such engine or interpreter, or no torch there.
        NotFoundError, DeniedError, UnavailableError: the model's image cannot be pulled.
        UsageError: a pretended field is none of a target's.
        SpecError: the spec and the image do not fit each other.
    """
    image = loaded.spec.run.image
    if image is None:
        local = local_engine(loaded, environ)
        facts = gather_facts(Path(local.python), pretended)
        _require_torch(
            facts, local.python, "activate the model's environment, or name its Python in run.interpreter"
        )
        yield loaded, local, facts
        return
    model = DockerModel(image, loaded.folder, loaded.spec.run.interpreter)
    with ExitStack() as stack:
        with console.step(f"Look into the image {image.reference}") as step:
            engine = stack.enter_context(docker_engine(model, environ, step.progress))
            loaded = settle_image(loaded, engine.image)
            facts = gather_facts_in_image(engine, work / "facts", pretended)
            _require_torch(
                facts,
                f"{engine.python} in {image.reference}",
                "name the image's other Python in run.interpreter",
            )
            _require_gpu(facts, image.reference, wanted=image.gpus is not None)
            step.result = f"{size_text(engine.image.size_bytes)}, torch {facts.target.torch}"
        for note in engine.notes:
            console.warn(note)
        yield loaded, engine, facts


def _require_torch(facts: Facts, python: str, advice: str) -> None:
    """Stop where nothing can be captured.

    Raises:
        EngineError: the model's Python has no torch.
    """
    if not facts.target.torch:
        raise EngineError(f"{python} has no torch", hint=advice)


def _require_gpu(facts: Facts, reference: str, *, wanted: bool) -> None:
    if wanted and facts.target.device_kind == "cpu":
        raise EngineError(
            f"run.docker.gpus asks for a GPU, but the torch in {reference} ({facts.target.torch}) sees none",
            hint="see whether nvidia-smi works in a container of the image, and whether its torch is built for CUDA",
        )


def local_engine(loaded: LoadedSpec, environ: Mapping[str, str]) -> LocalEngine:
    """Return this machine with the model's interpreter and the environment that the model inherits, without secrets.

    Raises:
        EngineError: there is no interpreter.
    """
    kept, _ = scrub(environ, loaded.spec.run.secrets)
    for name, below_home in _ROOT_ONLY_DATA.items():
        # Another HOME must not mean that weights are downloaded again.
        data = Path(kept.get("HOME", "/nonexistent")) / below_home
        if name not in kept and data.is_dir():
            kept[name] = str(data)
    folder = (loaded.folder / loaded.spec.run.workload.dir).resolve()
    return LocalEngine(find_interpreter(loaded, environ), folder, kept)


def find_interpreter(loaded: LoadedSpec, environ: Mapping[str, str]) -> Path:
    """Return the model's Python: the spec's, else the one that ``python`` or ``python3`` means.

    Raises:
        EngineError: there is none.
    """
    named = loaded.spec.run.interpreter
    path = environ.get("PATH", os.defpath)
    if named is not None:
        # A bare name is looked up like a command; anything with a slash is relative to the spec.
        found = shutil.which(str(loaded.folder / named) if "/" in named else named, path=path)
        if found is None:
            raise EngineError(f"run.interpreter: there is no executable {named}", hint="correct the spec")
        return Path(found).absolute()  # PATH may hold relative folders, and the model runs elsewhere
    for name in ("python", "python3"):
        found = shutil.which(name, path=path)
        if found:
            return Path(found).absolute()
    raise EngineError("no python on PATH to run the model with", hint="name it in run.interpreter")
