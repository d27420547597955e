"""Where a fetch finds itself: what it talks to, where it puts things, and in which environment."""

from __future__ import annotations

import contextlib
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from integration.bad_input.test_destination import mounted
from integration.faults.proxy import Proxy, Rule, redirects_to, running
from integration.services import find_program, free_port

# The pauses between tries are tested as numbers.
_START = (
    "from glowplug.registry import retry; retry.FIRST_PAUSE_S = 0.001; from glowplug.cli import main; main()"
)
GLOWPLUG = ("-c", _START)


@dataclass(frozen=True)
class Stage:
    """What all faults share: the real registry's host, the paths of the artifact's parts, and a folder of one's own."""

    registry: str
    parts: Mapping[str, str]
    folder: Path


@dataclass(frozen=True)
class Setting:
    """What one command is given.

    Attributes:
        host: of the reference.
        destination: where the cache goes.
        env: changes to the environment.
        prefix: what starts the interpreter.
        program: the interpreter's arguments.
        proxies: the one that the reference names, and others.
        is_place_named: whether `run` is told the destination too.
    """

    host: str
    destination: Path
    env: Mapping[str, str | bytes | None] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    program: tuple[str, ...] = GLOWPLUG
    proxies: tuple[Proxy, ...] = ()
    is_place_named: bool = True


Trouble = Callable[[Stage], AbstractContextManager[Setting]]


def through(*rules: Rule, env: Mapping[str, str] | None = None) -> Trouble:
    """A registry that breaks some requests."""

    @contextmanager
    def trouble(stage: Stage) -> Iterator[Setting]:
        with running(Proxy(stage.registry, rules, stage.parts)) as proxy:
            yield Setting(proxy.host, stage.folder / "out", env or {}, proxies=(proxy,))

    return trouble


def via_storage(*rules: Rule, part: str) -> Trouble:
    """A registry that keeps one part of an artifact on another host."""

    @contextmanager
    def trouble(stage: Stage) -> Iterator[Setting]:
        with running(Proxy(stage.registry)) as storage:
            moved = Rule(part, redirects_to(storage.host))
            with running(Proxy(stage.registry, (moved, *rules), stage.parts)) as proxy:
                yield Setting(proxy.host, stage.folder / "out", proxies=(proxy, storage))

    return trouble


def mirrored(*rules: Rule) -> Trouble:
    """A registry with a mirror that breaks some requests; without rules, one that is down."""

    @contextmanager
    def trouble(stage: Stage) -> Iterator[Setting]:
        with contextlib.ExitStack() as stack:
            origin = stack.enter_context(running(Proxy(stage.registry, (), stage.parts)))
            mirror = Proxy(stage.registry, rules, stage.parts, host=f"127.0.0.1:{free_port()}")
            if rules:
                stack.enter_context(running(mirror))
            env = {"GLOWPLUG_MIRRORS": mirror.host}
            yield Setting(origin.host, stage.folder / "out", env, proxies=(origin, mirror))

    return trouble


def at_host(name: Callable[[], str]) -> Trouble:
    """A reference to a host behind which there is nothing."""

    @contextmanager
    def trouble(stage: Stage) -> Iterator[Setting]:
        yield Setting(name(), stage.folder / "out")

    return trouble


def nobody() -> str:
    return f"127.0.0.1:{free_port()}"


def encrypted(valid: tuple[str, str], *, trusted: bool) -> Trouble:
    """A registry behind TLS with a certificate that is valid from one day to another.

    Its host is 0.0.0.0, which leads to this machine, but is not one of the names for which plain HTTP is the rule.
    """

    @contextmanager
    def trouble(stage: Stage) -> Iterator[Setting]:
        certificate = make_certificate(stage.folder, *valid)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        with running(Proxy(stage.registry), context, "0.0.0.0") as proxy:
            env = {"SSL_CERT_FILE": str(certificate)} if trusted else {}
            yield Setting(proxy.host, stage.folder / "out", env, proxies=(proxy,))

    return trouble


def make_certificate(folder: Path, begins: str, ends: str) -> Path:
    """Make a certificate that signs itself, for dates written YYYYMMDD; its key is in the same file."""
    openssl = find_program("openssl", package="openssl")
    (folder / "index.txt").touch()
    (folder / "ca.cnf").write_text(
        "[ca]\ndefault_ca = it\n"
        f"[it]\ndatabase = {folder}/index.txt\nnew_certs_dir = {folder}\nrand_serial = yes\n"
        "default_md = sha256\npolicy = any\nx509_extensions = names\n"
        "[any]\ncommonName = supplied\n[names]\nsubjectAltName = IP:0.0.0.0\n"
    )
    request = f"{openssl} req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=tests"
    run(*request.split(), "-keyout", str(folder / "key.pem"), "-out", str(folder / "request.pem"))
    sign = f"{openssl} ca -batch -notext -selfsign -startdate {begins}000000Z -enddate {ends}000000Z"
    names = {"config": "ca.cnf", "keyfile": "key.pem", "in": "request.pem", "out": "certificate.pem"}
    run(*sign.split(), *(word for name, file in names.items() for word in (f"-{name}", str(folder / file))))
    with (folder / "certificate.pem").open("ab") as out:
        out.write((folder / "key.pem").read_bytes())
    return folder / "certificate.pem"


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def into_mount(options: str) -> Trouble:
    """A destination on a file system of its own."""

    @contextmanager
    def trouble(stage: Stage) -> Iterator[Setting]:
        with mounted(stage.folder / "mnt", options) as folder:
            yield Setting(stage.registry, folder / "out")

    return trouble


def into_taken_folder(stage: Stage) -> AbstractContextManager[Setting]:
    """A destination that holds something."""
    (stage.folder / "out").mkdir()
    (stage.folder / "out" / "mine").touch()
    return contextlib.nullcontext(Setting(stage.registry, stage.folder / "out"))


def in_environment(**env: str | None) -> Trouble:
    """Nothing is wrong but variables; `run` has to find a place by itself."""
    return lambda stage: contextlib.nullcontext(
        Setting(stage.registry, stage.folder / "out", env, is_place_named=False)
    )


def as_nobody_known(stage: Stage) -> AbstractContextManager[Setting]:
    """A user id without an entry in /etc/passwd, and a HOME that is no place, as container platforms give out."""
    unshare = find_program("unshare", package="util-linux")
    # In a user namespace, so that the interpreter is readable wherever it is.
    prefix = (unshare, "--user", "--map-user=12345", "--map-group=12345")
    setting = Setting(stage.registry, stage.folder / "out", {"HOME": "/proc"}, prefix, is_place_named=False)
    return contextlib.nullcontext(setting)


def patched(code: str, host: str = "") -> Trouble:
    """An interpreter in which something was changed before Glowplug started."""
    program = ("-c", f"{code}; {_START}")
    return lambda stage: contextlib.nullcontext(
        Setting(host or stage.registry, stage.folder / "out", program=program)
    )


def interpreter(setting: Setting) -> list[str]:
    return [*setting.prefix, sys.executable, *setting.program]
