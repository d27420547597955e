"""Where the parts of a push go and what the replies to them mean (distribution-spec 1.1, "Push")."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlencode

from glowplug.errors import IntegrityError, UnavailableError
from glowplug.registry.replies import OK, Reply, failure
from glowplug.registry.transport import follow

OCTETS = {"Content-Type": "application/octet-stream"}

T = TypeVar("T")


def upload_location(reply: Reply, url: str, action: str) -> str:
    """Return the URL of the upload that a POST to ``url`` has opened; it may be on another host.

    Raises:
        GlowplugError: it has opened none.
    """
    if reply.status not in OK:
        raise failure(reply, action)
    location = reply.headers.get("Location")
    if not location:
        raise UnavailableError(f"cannot {action}: the registry does not say where to upload")
    return follow(url, location)


def with_digest(location: str, digest: str) -> str:
    """Return the URL that takes a whole blob and ends the upload; the registry's own query stays."""
    separator = "&" if "?" in location else "?"
    return f"{location}{separator}{urlencode({'digest': digest})}"


def is_held(reply: Reply, action: str) -> bool:
    """Whether a blob that was asked for with HEAD is there; a refusal is an error, not an absence.

    Raises:
        GlowplugError: the registry does not say.
    """
    if reply.status not in (*OK, 404):
        raise failure(reply, action)
    return reply.status != 404


def stored(store: Callable[[], T]) -> T:
    """Store something, and once more if the registry took it for something else.

    Distribution on a file system reads a blob back while another client may be writing the very same one, and finds half
    of it. What we send is read from our own file both times.
    """
    try:
        return store()
    except IntegrityError:
        return store()


def check_stored(reply: Reply, digest: str, action: str) -> None:
    """Check the reply to a PUT of what has this digest.

    Raises:
        IntegrityError: the registry says that it stored something else. It may say nothing.
        GlowplugError: it stored nothing.
    """
    if reply.status not in OK:
        raise failure(reply, action)
    said = reply.headers.get("Docker-Content-Digest", digest)
    if said.startswith("sha256:") and said != digest:
        raise IntegrityError(f"cannot {action}: the registry stored it as {said}, not {digest}")
