"""The table: what may go wrong at a start, and what then has to happen.

``python tests/integration/faults/table.py`` prints it as docs/explanation/failure-behaviour.md shows it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from integration.faults.proxy import (
    Rule,
    answers,
    damages,
    drips,
    hangs,
    hangs_after,
    ignores_ranges,
    promises,
    redirects_to_itself,
    resets,
    resets_after,
    states,
    truncates,
    wants_tokens,
)
from integration.faults.settings import (
    Setting,
    Trouble,
    as_nobody_known,
    at_host,
    encrypted,
    in_environment,
    into_mount,
    into_taken_folder,
    mirrored,
    nobody,
    patched,
    through,
    via_storage,
)

HTML = {"Content-Type": "text/html"}
OTHER_DIGEST = "sha256:" + "0" * 64
SLEEPING_RESOLVER = "import socket, time; socket.getaddrinfo = lambda *_, **__: time.sleep(600)"
TEN_YEARS_S = 315_360_000
# One request to a part that was asked for again, and what the second asked for.
FROM_1000 = "bytes=1000-"


@dataclass(frozen=True)
class Row:
    """One fault.

    Attributes:
        fault: its name.
        trouble: makes it happen.
        code: how ``fetch`` and ``run --strict`` end; 0 when the cache is there all the same.
        says: part of the one line that names it; empty when there is nothing to say.
        timeout_s: the budget that the commands are given.
        holds: what else must be true when the cache is there.
    """

    fault: str
    trouble: Trouble
    code: int = 0
    says: str = ""
    timeout_s: float = 30.0
    holds: Callable[[Setting], bool] = lambda _: True


def asked(part: str, times: int, header: str = "", value: str = "") -> Callable[[Setting], bool]:
    """Whether a part was asked for so often, the last time with that header."""

    def holds(setting: Setting) -> bool:
        requests = setting.proxies[0].asked(part)
        return len(requests) == times and (not header or requests[-1].headers.get(header) == value)

    return holds


def no_credentials_left_home(setting: Setting) -> bool:
    registry, storage = setting.proxies
    return (
        all(request.authorization is None for request in storage.requests)
        and len(storage.requests) == 1
        and any(request.authorization for request in registry.requests)
    )


def mirror_asked(times: int) -> Callable[[Setting], bool]:
    return lambda setting: len(setting.proxies[1].requests) == times


REACHING = (
    Row("nobody listens", at_host(nobody), 10, "Connection refused"),
    Row("the name does not resolve", at_host(lambda: "registry.invalid"), 10, "cannot talk to registry.invalid"),
    Row("the name server is silent", patched(SLEEPING_RESOLVER, "registry.example"), 10, "looking up registry.example did not finish within 1 s", 1),
    Row("the certificate is not trusted", encrypted(("20200101", "20990101"), trusted=False), 10, "cannot trust"),
    Row("the certificate is over, or the clock ahead", encrypted(("20200101", "20200102"), trusted=True), 10, "certificate has expired"),
    Row("the certificate is to come, or the clock behind", encrypted(("20980101", "20990101"), trusted=True), 10, "certificate is not yet valid"),
    Row("the clock is ten years ahead", patched(f"import time; now = time.time; time.time = lambda: now() + {TEN_YEARS_S}")),
    Row("the clock is ten years behind", patched(f"import time; now = time.time; time.time = lambda: now() - {TEN_YEARS_S}")),
    Row("the connection is reset once", through(Rule("tag", resets, 1)), holds=asked("tag", 2)),
    Row("the connection is reset every time", through(Rule("tag", resets)), 10, "cannot talk to"),
    Row("no answer", through(Rule("tag", hangs)), 10, "did not finish within 1 s", 1),
)  # fmt: skip

REFUSALS = (
    Row("401 without a challenge", through(Rule("tag", answers(401))), 11, "neither Bearer nor Basic"),
    Row("401 with a challenge of another kind", through(Rule("tag", answers(401, {"WWW-Authenticate": "Negotiate"}))), 11, "neither Bearer nor Basic"),
    Row("401 with a challenge that names no place", through(Rule("tag", answers(401, {"WWW-Authenticate": 'Bearer service="x"'}))), 11, "does not say where"),
    Row("401, and no login is known", through(Rule("tag", answers(401, {"WWW-Authenticate": 'Basic realm="x"'}))), 11, "wants a user name and a password"),
    Row("403", through(Rule("tag", answers(403))), 11, "the registry answers 403"),
    Row("403 for a layer", through(Rule("layer", answers(403))), 11, "the registry answers 403"),
    Row("404", through(Rule("tag", answers(404))), 12, "the registry answers 404"),
    Row("404 for a layer", through(Rule("layer", answers(404))), 12, "the registry answers 404"),
    Row("429 once", through(Rule("tag", answers(429), 1)), holds=asked("tag", 2)),
    Row("429 with a Retry-After, once", through(Rule("layer", answers(429, {"Retry-After": "1"}), 1)), holds=asked("layer", 2)),
    Row("429 with a Retry-After beyond any start", through(Rule("tag", answers(429, {"Retry-After": "3600"}))), 10, "the registry answers 429"),
    *(Row(f"{status} every time", through(Rule("tag", answers(status))), 10, f"the registry answers {status}") for status in (429, 500, 502, 503, 504)),
    *(Row(f"{status} for a layer, once", through(Rule("layer", answers(status), 1)), holds=asked("layer", 2)) for status in (500, 502, 503, 504)),
    Row("a web page instead of a manifest", through(Rule("tag", answers(200, HTML, b"<html>log in</html>"))), 10, "no registry"),
    Row("a web page instead of a layer", through(Rule("layer", answers(200, HTML, b"<html>log in</html>"))), 10, "no registry"),
    Row("a redirect to itself", through(Rule("layer", redirects_to_itself)), 10, "redirects in circles"),
    Row("a redirect to another host", via_storage(Rule("/", wants_tokens()), part="layer"), holds=no_credentials_left_home),
    Row("tokens end in the middle", through(Rule("/", wants_tokens("layer"))), holds=asked("/token", 2)),
)  # fmt: skip

TRANSFERS = (
    Row("a layer breaks off, once", through(Rule("layer", resets_after(1000), 1)), holds=asked("layer", 2)),
    Row("a layer ends too early, once", through(Rule("layer", truncates(1000), 1)), holds=asked("layer", 2, "range", FROM_1000)),
    Row("a layer ends too early, and ranges are ignored", through(Rule("layer", truncates(1000), 1), Rule("layer", ignores_ranges)), holds=asked("layer", 2, "range", FROM_1000)),
    Row("a layer breaks off every time", through(Rule("layer", resets_after(0))), 10, "cannot talk to"),
    Row("a layer comes to a halt", through(Rule("layer", hangs_after(1000))), 10, "did not finish within 1 s", 1),
    Row("a layer comes byte by byte", through(Rule("layer", drips)), 10, "did not finish within 1 s", 1),
    Row("a manifest ends too early, once", through(Rule("manifest", truncates(10), 1)), holds=asked("manifest", 2)),
    Row("the length is too large", through(Rule("layer", promises(+10))), 10, "cannot talk to"),
    Row("the length is too small", through(Rule("layer", promises(-10))), 20, "ended after"),
    Row("other bytes, as many, in a layer", through(Rule("layer", damages)), 20, "holds other bytes"),
    Row("other bytes, as many, in the config", through(Rule("config", damages)), 20, "holds other bytes"),
    Row("other bytes, as many, in the manifest", through(Rule("manifest", damages)), 20, "the bytes that came"),
    Row("another digest in a header", through(Rule("tag", states("Docker-Content-Digest", OTHER_DIGEST))), 20, "the bytes that came"),
)  # fmt: skip

MIRRORS = (
    Row("a mirror is down", mirrored(), says="Connection refused"),
    Row("a mirror does not have it", mirrored(Rule("tag", answers(404))), says="the registry answers 404", holds=mirror_asked(1)),
    Row("a mirror is broken", mirrored(Rule("tag", answers(503))), says="the registry answers 503", holds=mirror_asked(1)),
    Row("a mirror wants a login", mirrored(Rule("tag", answers(401, {"WWW-Authenticate": 'Basic realm="x"'}))), says="wants a user name", holds=mirror_asked(1)),
    Row("a mirror holds damaged bytes", mirrored(Rule("layer", damages)), says="holds other bytes", holds=asked("layer", 1)),
    Row("a mirror is silent", mirrored(Rule("layer", hangs)), says="did not finish within 2 s", timeout_s=4),
)  # fmt: skip

PLACES = (
    Row("the destination is read-only", into_mount("ro"), 2, "Read-only file system"),
    Row("the destination is mounted noexec", into_mount("noexec"), 2, "mounted noexec"),
    Row("the disk is full", into_mount("size=64k"), 1, "is full"),
    Row("the destination holds something", into_taken_folder, 2, "is not empty"),
    Row("no HOME", in_environment(HOME=None)),
    Row("no usable HOME and no usable TMPDIR", in_environment(HOME="/proc", TMPDIR="/proc")),
    Row("a user without an entry in /etc/passwd", as_nobody_known),
)  # fmt: skip

GROUPS = {
    "The registry cannot be reached": REACHING,
    "The registry refuses": REFUSALS,
    "Something happens on the way": TRANSFERS,
    "A mirror fails": MIRRORS,
    "This machine": PLACES,
}
TABLE = [row for group in GROUPS.values() for row in group]


def page() -> str:
    """Return the table as Markdown."""
    return "\n\n".join(f"### {title}\n\n{_rows(rows)}" for title, rows in GROUPS.items()) + "\n"


def _rows(rows: tuple[Row, ...]) -> str:
    head = ["| fault | the line holds | `fetch`, `run --strict` | `run` |", "| --- | --- | ---: | --- |"]
    return "\n".join([*head, *map(_row, rows)])


def _row(row: Row) -> str:
    line = f"*{row.says}*" if row.says else ""
    return f"| {row.fault} | {line} | {row.code} | {'cold' if row.code else 'warm'} |".replace("|  |", "| |")


if __name__ == "__main__":
    sys.stdout.write(page())
