"""Fetch while the model's weights are being loaded: ``glowplug.prefetch(ref)`` early, ``.wait()`` before compiling."""

from __future__ import annotations

import contextlib
import os
import pkgutil
import sys
import threading
from collections.abc import MutableMapping
from pathlib import Path

from glowplug.boot.access import Access
from glowplug.boot.activate import activation
from glowplug.boot.fetch import Chosen, open_artifact, put_in_place
from glowplug.boot.place import place, require_usable
from glowplug.boot.run import model_facts
from glowplug.boot.store import STORE_VARIABLE, open_store
from glowplug.core.record import START_FILE
from glowplug.core.reference import parse_reference
from glowplug.errors import GlowplugError, UsageError
from glowplug.registry.options import Options
from glowplug.registry.source import Source
from glowplug.report.console import Console

_START = f"agent/{START_FILE}"


class Prefetch:
    """A fetch in progress. Whatever goes wrong with it, the model compiles."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._thread: threading.Thread | None = None
        self._warm = False

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the caches are in place; call it before the first compiled function runs.

        Returns whether they are. When the time is up, the model compiles into the folder that the caches were meant
        for, and they stay away.
        """
        if self._thread is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                self._console.warn(f"the cache did not come within {timeout_s:g} s; starting cold")
                return False
        return self._warm

    def start(self, source: Source, chosen: Chosen, path: Path, closing: contextlib.ExitStack) -> None:
        """Unpack in the background; ``closing`` is closed at the end."""
        self._thread = threading.Thread(
            target=self._run, args=(source, chosen, path, closing), name="glowplug-prefetch", daemon=True
        )
        self._thread.start()

    def _run(self, source: Source, chosen: Chosen, path: Path, closing: contextlib.ExitStack) -> None:
        try:
            with closing:
                put_in_place(source, chosen, path, lambda _progress: None)
            self._warm = True
        except GlowplugError as error:
            self._console.warn(f"no cache: {error}; starting cold")


def prefetch(
    reference: str,
    *,
    destination: str | os.PathLike[str] | None = None,
    timeout_s: float | None = None,
    environ: MutableMapping[str, str] | None = None,
) -> Prefetch:
    """Choose the artifact that fits this host, set the environment, and fetch in the background.

    Call it before torch is imported: torch reads its settings when its compiler is. An error becomes a warning on
    stderr, and ``wait`` then returns False.

    Args:
        reference: ``HOST/NAME:TAG``, ``HOST/NAME@DIGEST`` or ``oci:PATH:TAG``.
        destination: where the caches go; a new private folder by default.
        timeout_s: budget for everything that goes over the network.
        environ: the environment to set; this process's own by default.
    """
    environ = os.environ if environ is None else environ
    console = Console()
    handle = Prefetch(console)
    closing = contextlib.ExitStack()
    try:
        if "torch._inductor" in sys.modules:
            raise UsageError(
                "prefetch was called after torch's compiler was imported",
                hint="call it first, before importing torch",
            )
        store = open_store(environ.get(STORE_VARIABLE), environ, console)
        access = Access(Options(timeout_s=timeout_s), store)
        wanted = parse_reference(reference)
        host = model_facts(None, {}).target
        with place(Path(destination).absolute() if destination is not None else None, environ) as path:
            require_usable(path)
            source, chosen = closing.enter_context(open_artifact(wanted, host, access, console.note))
            environ.update(activation(chosen.record, path, environ))
            _stabilize_keys()
            handle.start(source, chosen, path, closing)
    except GlowplugError as error:
        closing.close()
        console.warn(f"no cache: {error}; starting cold")
        console.note(error.hint)
    return handle


def _stabilize_keys() -> None:
    """Do in this process what the start file on PYTHONPATH does in those to come."""
    source = pkgutil.get_data("glowplug", _START)
    if source is not None:
        exec(compile(source, _START, "exec"), {"__name__": "_glowplug_start", "__file__": _START})  # noqa: S102
