"""Run: fetch and activate, for a command that the cache never stops."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from glowplug.boot.access import Access
from glowplug.boot.activate import activation, strangers
from glowplug.boot.fetch import Fetched, fetch
from glowplug.boot.place import place
from glowplug.boot.processes import cannot_start
from glowplug.core.facts import Facts
from glowplug.core.reference import Reference, parse_reference
from glowplug.errors import EngineError, GlowplugError, IntegrityError, TrustError, UsageError
from glowplug.host.facts import gather_facts
from glowplug.report.console import Console

# An image can name its cache, so that its containers need no setting.
REFERENCE_FILE = Path("/etc/glowplug/ref")


class RunRequest(NamedTuple):
    """What the command line asks for.

    Attributes:
        reference: the artifact, as given: one that cannot be read must not stop the server either.
        command: what to start, with its arguments.
        destination: where the caches go; ``None`` for a new private folder.
        interpreter: the model's Python; ``None`` to take it from the command or from PATH.
        strict: end with an error instead of starting cold.
        access: how the repository is reached.
    """

    reference: str
    command: Sequence[str]
    destination: Path | None
    interpreter: Path | None
    strict: bool
    access: Access


class Prepared(NamedTuple):
    """The environment for a command, and the cache that it leads to.

    Attributes:
        environment: for the command.
        fetched: the cache, ``None`` for a cold start.
        private: the folder that was made for it, and is of no use to anyone once the command has ended.
    """

    environment: dict[str, str]
    fetched: Fetched | None = None
    private: Path | None = None


def prepare(request: RunRequest, environ: Mapping[str, str], console: Console) -> Prepared:
    """Return the environment for the command: with the cache, or unchanged after a line that says why.

    Raises:
        GlowplugError: only when the request is strict.
    """
    try:
        reference = _reference(request.reference)
        python = request.interpreter or model_interpreter(request.command, environ)
        facts = model_facts(python, {})
        for note in facts.notes:
            console.warn(note)
        with place(request.destination, environ) as destination:
            fetched = fetch(reference, facts.target, destination, request.access, console)
    except GlowplugError as error:
        if request.strict:
            raise
        _explain_cold_start(error, console)
        return Prepared(dict(environ))
    except Exception as error:
        if request.strict:
            raise
        # Whatever we overlooked: the server is what matters.
        console.warn(f"no cache: {type(error).__name__}: {error} (please report this); starting cold")
        return Prepared(dict(environ))
    if found := strangers(fetched.record, environ):
        console.warn(
            f"set here, but not at the capture: {', '.join(found)}; torch will look for other entries"
        )
    private = fetched.path.parent if request.destination is None else None
    return Prepared({**environ, **activation(fetched.record, fetched.path, environ)}, fetched, private)


def _reference(text: str) -> Reference:
    """Read the reference as given, or the image's own: what its builder wrote to ``REFERENCE_FILE``."""
    if not text:
        with contextlib.suppress(OSError, ValueError):
            text = REFERENCE_FILE.read_text("utf-8").strip()
    if not text:
        raise UsageError(
            "no reference was given",
            hint=f"glowplug run REFERENCE -- COMMAND..., or set GLOWPLUG_REF, or write it to {REFERENCE_FILE}",
        )
    return parse_reference(text)


def _explain_cold_start(error: GlowplugError, console: Console) -> None:
    what = "cache refused" if isinstance(error, (IntegrityError, TrustError)) else "no cache"
    console.warn(f"{what}: {error}")
    console.note(error.hint)
    console.line("starting cold")


def model_facts(interpreter: Path | None, overrides: Mapping[str, str]) -> Facts:
    """Gather this host's facts for choosing a cache.

    Raises:
        EngineError: the interpreter is broken, or has no torch: then no cache can fit.
    """
    facts = gather_facts(interpreter, overrides)
    if not facts.target.torch:
        raise EngineError(
            f"{interpreter or sys.executable} has no torch, so no cache fits it",
            hint="name the model's Python with --python or GLOWPLUG_PYTHON",
        )
    return facts


def model_interpreter(command: Sequence[str], environ: Mapping[str, str]) -> Path | None:
    """Return the Python that the command will run under: its own first word, or what ``python`` means.

    ``None`` when neither is a Python; then this interpreter is taken for the model's.
    """
    path = environ.get("PATH", os.defpath)
    for name in (command[0], "python", "python3"):
        if not Path(name).name.startswith("python"):
            continue
        found = shutil.which(name, path=path)
        if found is not None:
            return Path(found)
    return None


def become(command: Sequence[str], environ: Mapping[str, str]) -> None:
    """Replace this process by the command: same pid, so signals and exit status are the command's own.

    Raises:
        UsageError: the command cannot be started.
    """
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores them, and a command would inherit that
    try:
        os.execvpe(command[0], list(command), dict(environ))  # noqa: S606 - a shell would change the words
    except OSError as error:
        raise cannot_start(command, error) from error
