"""``${NAME}`` in a text of the spec."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from glowplug.core.document import Section

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}|(?P<broken>\$\{[^}]*\}?)")


def interpolate(text: str, environ: Mapping[str, str], secrets: Collection[str]) -> tuple[str, list[str]]:
    """Replace every ``${NAME}`` by the variable's value; ``$${`` stands for a plain ``${``.

    Returns:
        The text, and what is wrong with it: a variable that is unset or secret, a ``${`` that names none.
    """
    flaws: list[str] = []

    def replace(match: re.Match[str]) -> str:
        name, broken = match["name"], match["broken"]
        if broken is not None:
            flaws.append(f"'{broken}' cannot be read; write ${{NAME}}, or $${{ for a plain ${{")
        elif name is None:
            return "${"
        elif name in secrets:
            flaws.append(f"${{{name}}} is a secret (run.secrets), and would be recorded here")
        elif name not in environ:
            flaws.append(f"${{{name}}} is not set in the environment")
        else:
            return environ[name]
        return ""

    return _REFERENCE.sub(replace, text), flaws


def interpolated(
    section: Section, key: str, environ: Mapping[str, str], secrets: Collection[str]
) -> str | None:
    """Return the text of ``key`` with its variables replaced; what is wrong with it is noted in ``section``."""
    text = section.text(key)
    if text is None:
        return None
    replaced, flaws = interpolate(text, environ, secrets)
    for flaw in flaws:
        section.add(key, flaw)
    return None if flaws else replaced
