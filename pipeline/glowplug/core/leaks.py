"""Secrets: their values must get into nothing that is published or printed."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from glowplug.core.contract import looks_secret
from glowplug.errors import GlowplugError

# Values shorter than this occur in binaries by chance.
_MIN_SECRET_LENGTH = 8


def find_secrets(environ: Mapping[str, str], allowed: Collection[str]) -> dict[str, str]:
    """Return the secrets of an environment by name: those meant for the model, and what looks like one."""
    return {
        name: value
        for name, value in environ.items()
        if len(value) >= _MIN_SECRET_LENGTH and (name in allowed or looks_secret(name, value))
    }


def require_absent(secrets: Mapping[str, str], content: bytes, where: str) -> None:
    """Look for secrets, as they are and as JSON writes them, in something that is to be published.

    Raises:
        GlowplugError: one is there.
    """
    for name, value in secrets.items():
        escaped = json.dumps(value, ensure_ascii=False)[1:-1]
        if any(form.encode(errors="surrogateescape") in content for form in (value, escaped)):
            raise GlowplugError(
                f"the value of {name} is in {where}; nothing was published",
                hint=f"list {name} in run.secrets, and keep its value out of run.inputs, run.env, the traced code and "
                "variables named *TORCH*, *DYNAMO*, *INDUCTOR* or *TRITON*",
            )


def masked(text: str, secrets: Mapping[str, str]) -> str:
    """Return what a model printed without the secrets in it: it may end in a public log."""
    for name, value in secrets.items():
        text = text.replace(value, f"${name}")
    return text
