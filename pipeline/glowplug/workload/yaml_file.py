"""YAML that people write (the spec, cog.yaml), read with line numbers and without PyYAML's surprises."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from glowplug.core.document import Document, Flaw
from glowplug.errors import SpecError, ToolMissingError

MAX_FILE_BYTES = 1024 * 1024
# Aliases can make a small file expand without end.
MAX_VALUES = 100_000
MAX_NUMBER_LENGTH = 400

# YAML 1.2 and JSON call 1e-3 a number; PyYAML follows YAML 1.1, where a float needs a dot.
_EXPONENT_WITHOUT_DOT = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+\Z")
_TEXT_TAG = "tag:yaml.org,2002:str"
_NO_CHARACTER = re.compile(r"[\0\ud800-\udfff]")


def read_yaml(path: Path) -> Document:
    """Read one YAML document.

    Keys that are written twice become flaws of the document; its ``values`` are plain data of any shape.

    Raises:
        SpecError: the file is missing, unreadable, larger than 1 MiB, empty, no UTF-8 or no YAML.
        ToolMissingError: PyYAML is not installed.
    """
    text = _read_text(path)
    try:
        import yaml  # noqa: PLC0415 (an optional dependency)
    except ImportError as error:
        message = f"{path} cannot be read, because PyYAML is not installed"
        raise ToolMissingError(message, hint="pip install 'glowplug[build]'") from error

    class Loader(yaml.SafeLoader):
        """Safe, and with numbers as YAML 1.2 has them."""

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT_WITHOUT_DOT, list("-+0123456789"))
    loader = None
    try:
        loader = Loader(text)
        node = loader.get_single_node()
        if node is None:
            raise SpecError(f"{path} is empty")
        survey = _Survey(path, loader.resolve)
        survey.visit("", node, node.start_mark.line)
        values = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise SpecError(_sentence(path, error)) from error
    except yaml.YAMLError as error:  # a character that YAML does not allow
        raise SpecError(f"{path} is not YAML: it holds a control character") from error
    except RecursionError as error:
        raise SpecError(f"{path} nests too deeply, or holds an alias to itself") from error
    except (ValueError, OverflowError) as error:  # a date such as 2024-13-45
        raise SpecError(f"{path} holds a value that YAML cannot read: {error}", hint="quote it") from error
    finally:
        if loader is not None:
            loader.dispose()
    return Document(str(path), values, survey.lines, survey.texts, survey.flaws)


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError as error:
        raise SpecError(f"{path} does not exist", hint=f"it was looked for at {path.absolute()}") from error
    except IsADirectoryError as error:
        raise SpecError(f"{path} is a folder", hint="name the file in it") from error
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise SpecError(f"{path} is larger than 1 MiB, which no file of this kind is")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SpecError(f"{path}:{line}: is not UTF-8 text", hint="save the file as UTF-8") from error


class _Survey:
    """Walks the nodes of a document for what is lost once they are plain values."""

    def __init__(self, path: Path, resolve: Callable[[type, Any, tuple[bool, bool]], str]) -> None:
        self.lines: dict[str, int] = {}
        self.texts: dict[str, str] = {}
        self.flaws: list[Flaw] = []
        self._file = path
        self._resolve = resolve
        self._left = MAX_VALUES

    def visit(self, path: str, node: Any, line: int) -> None:
        """Note ``node``, which is the value at ``path``, and all below it; lines count from 0 here."""
        self._left -= 1
        if self._left < 0:
            raise SpecError(f"{self._file} holds more than {MAX_VALUES} values")
        if path:
            self.lines[path] = line + 1
        self._check_tag(node, line)
        if node.id == "scalar":
            if node.style is None:
                self.texts[path] = node.value
            self._check_scalar(node, line)
        elif node.id == "sequence":
            for number, item in enumerate(node.value):
                self.visit(f"{path}[{number}]", item, item.start_mark.line)
        else:
            self._visit_mapping(path, node)

    def _visit_mapping(self, path: str, node: Any) -> None:
        first: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line
            self._check_tag(key, line)
            if key.id != "scalar":
                raise SpecError(f"{self._file}:{line + 1}: has a list or a mapping for a key")
            self._check_scalar(key, line)
            name = key.value
            here = f"{path}.{name}" if path else name
            if name in first:
                message = f"is written twice, first on line {first[name] + 1}"
                self.flaws.append(Flaw(here, message, line + 1))
            first.setdefault(name, line)
            self.visit(here, value, line)

    def _check_tag(self, node: Any, line: int) -> None:
        """Refuse ``!!python/name:os.system``, and also ``!!bool x``, over which PyYAML stumbles."""
        plain = node.id == "scalar" and node.style is None
        if node.tag not in (_TEXT_TAG, self._resolve(type(node), node.value, (plain, True))):
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            raise SpecError(f"{self._file}:{line + 1}: carries the YAML tag {tag}; write it without")

    def _check_scalar(self, node: Any, line: int) -> None:
        """Refuse what an escape can make and no argument can carry, and numbers too long to print."""
        if _NO_CHARACTER.search(node.value):
            raise SpecError(f"{self._file}:{line + 1}: holds a NUL or half of a surrogate pair")
        if node.tag != _TEXT_TAG and len(node.value) > MAX_NUMBER_LENGTH:
            raise SpecError(f"{self._file}:{line + 1}: holds a number of {len(node.value)} characters")


def _sentence(path: Path, error: Any) -> str:
    mark = error.problem_mark or error.context_mark
    place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
    if "'\\t'" in (error.problem or ""):
        return f"{place}: a tab cannot indent YAML; use spaces"
    context = f"{error.context}, " if error.context else ""
    return f"{place}: is not valid YAML: {context}{error.problem}"
