"""Options and arguments that several commands share."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from glowplug.boot.access import Access
from glowplug.boot.store import STORE_VARIABLE, open_store
from glowplug.core.reference import Reference, parse_reference
from glowplug.errors import GlowplugError, UsageError
from glowplug.registry.options import Options
from glowplug.report.console import Console

_F = TypeVar("_F", bound=Callable[..., Any])


def _parse_reference(_context: click.Context, _parameter: click.Parameter, value: str) -> Reference:
    return parse_reference(value)


reference = click.argument("reference", callback=_parse_reference)

spec_file = click.option(
    "-f",
    "--file",
    "spec_path",
    type=click.Path(path_type=Path),
    default="glowplug.yaml",
    show_default=True,
    envvar="GLOWPLUG_FILE",
    show_envvar=True,
    help="The spec.",
)

as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")


def registry_options(function: _F) -> _F:
    """Add the options that every command with a registry has, as one ``registry`` argument."""
    timeout = click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(min=0, min_open=True),
        envvar="GLOWPLUG_TIMEOUT",
        show_envvar=True,
        metavar="SECONDS",
        help="Budget for everything that goes over the network.",
    )
    insecure = click.option(
        "--insecure-registry",
        "plain_http",
        is_flag=True,
        envvar="GLOWPLUG_INSECURE_REGISTRY",
        show_envvar=True,
        help="Use plain HTTP for a registry that is not on this machine.",
    )
    return timeout(insecure(function))


def make_registry_options(timeout_s: float | None, plain_http: bool) -> Options:
    """Return the connection options that the flags describe."""
    return Options(timeout_s=timeout_s, plain_http=plain_http)


def access_options(function: _F) -> _F:
    """Add the options of commands that fetch: the connection's, the store's, and whether to use the network."""
    store = click.option(
        "--store",
        type=click.Path(path_type=Path),
        envvar=STORE_VARIABLE,
        show_envvar=True,
        help="The node's store, a folder shared by containers: what is in it is not downloaded again.",
    )
    offline = click.option(
        "--offline",
        is_flag=True,
        envvar="GLOWPLUG_OFFLINE",
        show_envvar=True,
        help="Use no network: only what the store holds.",
    )
    return store(offline(registry_options(function)))


class AccessFlags(NamedTuple):
    """What ``access_options`` were given."""

    store: Path | None
    offline: bool
    timeout_s: float | None
    plain_http: bool

    def access(self) -> Access:
        """Return how the repository is to be reached."""
        store = open_store(self.store, os.environ, Console())
        return Access(make_registry_options(self.timeout_s, self.plain_http), store, self.offline)


def parse_target_overrides(values: tuple[str, ...]) -> dict[str, str]:
    """Read ``FIELD=VALUE`` words.

    Raises:
        UsageError: a word has no ``=``.
    """
    overrides = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals:
            raise UsageError(f"--pretend-target {value} has no '='", hint="it looks like device_arch=avx2")
        overrides[name] = text
    return overrides


pretend_target = click.option(
    "--pretend-target",
    "pretend",
    multiple=True,
    envvar="GLOWPLUG_PRETEND_TARGET",
    show_envvar=True,
    metavar="FIELD=VALUE",
    help="Take this machine for another one, to rehearse a GPU type that you do not have. Repeatable; "
    "in the variable, separated by spaces.",
)

interpreter = click.option(
    "--python",
    "interpreter",
    type=click.Path(path_type=Path),
    envvar="GLOWPLUG_PYTHON",
    show_envvar=True,
    help="The model's Python, whose torch decides what fits. Default: the one on PATH.",
)


def print_result(text: str) -> None:
    """Print a result on stdout. A reader who has seen enough is no failure: the work is done.

    Raises:
        GlowplugError: it cannot be written, for want of space for example.
    """
    try:
        click.echo(text)
    except OSError as error:
        sys.stdout = None  # or the interpreter complains when it flushes at its end
        if error.errno != errno.EPIPE:
            raise GlowplugError(f"the result cannot be written to stdout: {error.strerror}") from error


def print_json(value: Any) -> None:
    """Print a result for scripts, in ASCII, which every locale can encode."""
    print_result(json.dumps(value, indent=2))
