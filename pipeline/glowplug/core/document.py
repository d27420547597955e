"""A configuration file as data that remembers its lines, and the problems in it, all of them at once."""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from glowplug.errors import SpecError

_SHOWN_CHARACTERS = 60


@dataclass(frozen=True)
class Flaw:
    """One thing that is wrong, at a path such as ``run.inputs[1].width``; lines count from 1."""

    path: str
    message: str
    line: int | None = None


@dataclass(frozen=True)
class Document:
    """What a file holds, and where.

    Attributes:
        name: the file as messages call it.
        values: the parsed content.
        lines: the line of each path.
        texts: how each unquoted scalar was spelled, before YAML made a number or a truth value of it.
        flaws: what was wrong with the file itself.
    """

    name: str
    values: Any
    lines: Mapping[str, int] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    flaws: Sequence[Flaw] = ()

    def line(self, path: str) -> int | None:
        """Return the line of ``path``, or of the nearest part around it that has one."""
        while path and path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.lines.get(path)

    def place(self, path: str) -> str:
        """Return where ``path`` stands: ``glowplug.yaml:3: model.version``."""
        return _place(self.name, self.line(path), path)


class Problems:
    """Collects what is wrong with a document, so that one run shows everything there is to mend."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._flaws = list(document.flaws)
        self._elsewhere: list[str] = []

    def add(self, path: str, message: str) -> None:
        """Note a problem of the document."""
        self._flaws.append(Flaw(path, message, self._document.line(path)))

    def add_elsewhere(self, where: str, message: str) -> None:
        """Note a problem of a flag, a variable or another file, which replaces or completes the document."""
        self._elsewhere.append(_one_line(f"{where}: {message}"))

    def expected_text(self, path: str, value: Any) -> None:
        """Note that text is needed where YAML read something else."""
        spelled = self._document.texts.get(path)
        if isinstance(value, list | Mapping):
            self.add(path, f"must be text, but is {describe(value)}")
        elif spelled:
            self.add(path, f"{spelled} was read by YAML as {describe(value)}; quote it")
        else:
            self.add(path, f"must be text, but is {describe(value)}; quote it")

    def raise_if_any(self) -> None:
        """Raise SpecError with one line per problem, in the order of the file."""
        if not self._flaws and not self._elsewhere:
            return
        by_line = sorted(self._flaws, key=lambda flaw: flaw.line or 0)
        raise SpecError("\n".join([*(self._render(flaw) for flaw in by_line), *self._elsewhere]))

    def _render(self, flaw: Flaw) -> str:
        return _one_line(f"{_place(self._document.name, flaw.line, flaw.path)}: {flaw.message}")


class Section:
    """One mapping of a document, read key by key. A value that is absent or wrong reads as ``None``."""

    def __init__(
        self, problems: Problems, path: str, values: Mapping[Any, Any], keys: Collection[str] | None = None
    ) -> None:
        """Read ``values``; keys other than ``keys`` are problems, unless every key is allowed."""
        self._problems = problems
        self._path = path
        self._values = values
        for key in values:
            if not isinstance(key, str):
                problems.add(self.at(key), f"this key was read by YAML as {describe(key)}; quote it")
            elif keys is not None and key not in keys:
                problems.add(self.at(key), _unknown(key, keys))

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def names(self) -> list[str]:
        """Return the keys that are text."""
        return [key for key in self._values if isinstance(key, str)]

    def at(self, key: object) -> str:
        """Return the path of ``key``."""
        return f"{self._path}.{key}" if self._path else str(key)

    def add(self, key: str, message: str) -> None:
        """Note a problem with the value of ``key``."""
        self._problems.add(self.at(key), message)

    def require(self, key: str, advice: str) -> bool:
        """Return whether ``key`` is there; when it is not, note what to write."""
        if key in self._values:
            return True
        self._problems.add(self._path, f"{key} is missing; {advice}")
        return False

    def value(self, key: str) -> Any:
        """Return the value of ``key`` as it is."""
        return self._values.get(key)

    def given(self, key: str) -> bool:
        """Return whether ``key`` has a value; a key with nothing after the colon is a problem."""
        if key not in self._values:
            return False
        if self._values[key] is None:
            self.add(key, "is empty; write a value, or leave the key out")
            return False
        return True

    def mapping(self, key: str, keys: Collection[str] | None = None) -> Section | None:
        """Return the mapping at ``key`` as a section of its own."""
        value = self._values[key]
        if isinstance(value, Mapping):
            return Section(self._problems, self.at(key), value, keys)
        self.add(key, f"must be a mapping of keys to values, but is {describe(value)}")
        return None

    def text(self, key: str) -> str | None:
        """Return a text that is not empty."""
        if not self.given(key):
            return None
        value = self._values[key]
        if not isinstance(value, str):
            self._problems.expected_text(self.at(key), value)
            return None
        if not value.strip():
            self.add(key, "is empty; write a value, or leave the key out")
            return None
        return value

    def integer(self, key: str, least: int, most: int | None = None) -> int | None:
        """Return a whole number of at least ``least`` and at most ``most``."""
        value = self.number(key, least)
        if value is None:
            return None
        if not isinstance(value, int):
            self.add(key, f"must be a whole number, but is {describe(value)}")
            return None
        if most is not None and value > most:
            self.add(key, f"must be at most {most}, but is {value}")
            return None
        return value

    def number(self, key: str, least: float) -> int | float | None:
        """Return a finite number of at least ``least``."""
        if not self.given(key):
            return None
        value = self._values[key]
        if isinstance(value, bool) or not isinstance(value, int | float):
            hint = "; write it without quotes" if isinstance(value, str) and _is_number(value) else ""
            self.add(key, f"must be a number, but is {describe(value)}{hint}")
            return None
        if not least <= value <= sys.float_info.max:
            self.add(key, f"must be a number of at least {least}, but is {value}")
            return None
        return value

    def items(self, key: str) -> Sequence[Any] | None:
        """Return a list."""
        if not self.given(key):
            return None
        value = self._values[key]
        if not isinstance(value, list):
            self.add(key, f"must be a list, one '- ' line per entry, but is {describe(value)}")
            return None
        return value


def check_json(problems: Problems, path: str, value: Any) -> None:
    """Note what a value holds that JSON cannot; YAML can hold more than that."""
    if isinstance(value, Mapping):
        section = Section(problems, path, value)
        for key in section.names():
            check_json(problems, section.at(key), section.value(key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            check_json(problems, f"{path}[{number}]", item)
    elif isinstance(value, float) and not math.isfinite(value):
        problems.add(path, f"must be a finite number, but is {value}")
    elif not isinstance(value, str | int | float | None):
        problems.expected_text(path, value)


def describe(value: Any) -> str:
    """Say what YAML made of something: ``the number 1.1``, ``a list``."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return f"the truth value {str(value).lower()}"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return (
            f"the text '{value}'"
            if len(value) <= _SHOWN_CHARACTERS
            else f"the text '{value[:_SHOWN_CHARACTERS]}...'"
        )
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, Mapping):
        return "a mapping"
    if hasattr(value, "isoformat"):
        return f"the date {value}"
    return f"a {type(value).__name__}"


def _place(name: str, line: int | None, path: str) -> str:
    place = name if line is None else f"{name}:{line}"
    return f"{place}: {path}" if path else place


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


def _unknown(key: str, keys: Collection[str]) -> str:
    near = difflib.get_close_matches(key, keys, n=1)
    return "unknown key; " + (f"did you mean '{near[0]}'?" if near else f"possible here: {', '.join(keys)}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
