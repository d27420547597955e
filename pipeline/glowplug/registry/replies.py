"""What a registry's refusal means, as one of our errors (distribution-spec 1.1, "Error Codes")."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from glowplug.core.oci import MAX_DOCUMENT_BYTES, decode
from glowplug.errors import DeniedError, GlowplugError, IntegrityError, NotFoundError, UnavailableError
from glowplug.registry.retry import TransientError

OK = range(200, 300)
REDIRECTS = (301, 302, 303, 307, 308)
TRANSIENT = (408, 429, 500, 502, 503, 504)
MAX_REPLY_BYTES = MAX_DOCUMENT_BYTES

LOGIN_HINT = "log in with 'docker login', or set GLOWPLUG_USERNAME and GLOWPLUG_PASSWORD"
_MAX_MESSAGE_CHARS = 200


@dataclass(frozen=True)
class Reply:
    """An answer; ``headers`` are looked up without regard to case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


def failure(reply: Reply, action: str) -> GlowplugError:
    """Turn a status that is no success into the error that ends ``action`` ("read ghcr.io/acme/x:v1")."""
    code, message = _reason(reply)
    problem = f"cannot {action}: the registry answers {reply.status}" + (f" {message}" if message else "")
    if code == "DIGEST_INVALID":
        return IntegrityError(problem)
    if reply.status in (401, 403):
        return DeniedError(problem, hint=LOGIN_HINT)
    if reply.status == 405:
        return DeniedError(
            problem, hint="is it read-only, or a mirror of another registry? name one to push to"
        )
    if reply.status == 404 and "html" in reply.headers.get("Content-Type", ""):
        return not_a_registry(reply, action)
    if reply.status == 404:
        return NotFoundError(
            problem, hint="look for a misspelt name; some registries also hide what you may not see"
        )
    if reply.status in TRANSIENT:
        return TransientError(problem, retry_after_s=_retry_after_s(reply.headers.get("Retry-After")))
    return UnavailableError(problem)


def json_object(reply: Reply, action: str) -> dict[str, object]:
    """Read an answer that must be a JSON object; a proxy's HTML page with status 200 is none.

    Raises:
        UnavailableError: it is something else.
    """
    try:
        value = decode(reply.body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise not_a_registry(reply, action)
    return value


def next_page(reply: Reply) -> str:
    """Return the target of ``Link: <target>; rel="next"`` (RFC 8288), which may be relative; empty on the last page."""
    match = re.search(r'<([^>]*)>\s*;[^,]*rel="?next"?', reply.headers.get("Link", ""))
    return match[1] if match else ""


def not_a_registry(reply: Reply, action: str) -> UnavailableError:
    """The error for an answer that no registry gives."""
    media_type = reply.headers.get("Content-Type") or "an answer without a content type"
    return UnavailableError(
        f"cannot {action}: something that is no registry answers {reply.status} with {media_type}",
        hint="is there a proxy or a login page in between?",
    )


def _retry_after_s(value: str | None) -> float | None:
    """Read the number of seconds; the header's other form, a date, is left to our own pauses."""
    return float(value) if value is not None and value.strip().isdecimal() else None


def _reason(reply: Reply) -> tuple[str, str]:
    """Return the registry's error code and a short printable text that includes it."""
    try:
        first = decode(reply.body)["errors"][0]
        code, message = str(first["code"]), str(first.get("message", ""))
    except (ValueError, LookupError, TypeError, AttributeError):
        return "", ""
    text = "".join(c for c in f"{code}: {message}" if c.isprintable())
    return code, text[:_MAX_MESSAGE_CHARS]
