"""``run.requests`` of ``glowplug.yaml``: what a server is asked, made explicit for ``agent/command.py``."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from glowplug.core.document import Problems, Section, check_json, describe
from glowplug.core.interpolation import interpolate
from glowplug.core.surroundings import Surroundings
from glowplug.errors import SpecError

REQUEST_KEYS: tuple[str, ...] = ("method", "path", "json", "body", "form", "files", "headers", "status")

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
_BODIES = ("json", "body", "form", "files")
# Header field names and values as RFC 9110, 5.1 and 5.5, has them.
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x21-\x7e\x80-\xff]([\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?")
_SPACE = re.compile(r"[\x00-\x20\x7f-\U0010ffff]")
# Those that frame a message are the client's own.
_OWN_HEADERS = ("connection", "content-length", "host", "transfer-encoding")


def parse_requests(
    section: Section, problems: Problems, around: Surroundings, secrets: Collection[str]
) -> tuple[Any, ...]:
    """Read the list.

    Returns:
        One JSON object per request, with ``method`` and ``path``, and what else was given: ``json``, ``body``, ``form``,
        ``headers`` (secrets still as ``${NAME}``), ``status``, and ``files``: ``{name: {path, digest}}``.
    """
    path = section.at("requests")
    if not section.require("requests", "write requests: [{path: /predict, json: {prompt: a cat}}]"):
        return ()
    items = section.items("requests")
    if items is not None and not items:
        problems.add(path, "lists nothing; without a request nothing is compiled")
    return tuple(
        _Request(f"{path}[{number}]", item, problems).read(around, secrets)
        for number, item in enumerate(items or ())
    )


class _Request:
    def __init__(self, path: str, value: Any, problems: Problems) -> None:
        self._problems = problems
        if not isinstance(value, dict):
            problems.add(path, f"must be a mapping such as {{path: /predict}}, but is {describe(value)}")
            value = {"path": "/"}
        self._path = path
        self._section = Section(problems, path, value, REQUEST_KEYS)

    def read(self, around: Surroundings, secrets: Collection[str]) -> dict[str, Any]:
        section = self._section
        bodies = [key for key in _BODIES if key in section]
        if len(bodies) > 1 and bodies != ["form", "files"]:
            self._problems.add(self._path, f"has both {' and '.join(bodies)}; keep one")
        method = section.text("method") or ("POST" if bodies else "GET")
        if method not in _METHODS:
            section.add("method", f"must be one of {', '.join(_METHODS)}, but is {describe(method)}")
        request: dict[str, Any] = {"method": method, "path": self._target()}
        if "json" in section:
            check_json(self._problems, section.at("json"), section.value("json"))
            request["json"] = section.value("json")
        parts: dict[str, Callable[[], Any]] = {
            "body": lambda: section.text("body"),
            "form": self._form,
            "files": lambda: self._files(around.file_digest),
            "headers": lambda: self._headers(around, secrets),
            "status": lambda: section.integer("status", 200, 599),
        }
        return request | {key: read() for key, read in parts.items() if key in section}

    def _target(self) -> str:
        if not self._section.require("path", "write path: /predict"):
            return "/"
        path = self._section.text("path")
        if path is not None and (not path.startswith("/") or _SPACE.search(path)):
            self._section.add(
                "path", f"must start with / and be encoded as in a URL, but is {describe(path)}"
            )
        return path or "/"

    def _form(self) -> dict[str, Any]:
        form = self._section.mapping("form") if self._section.given("form") else None
        values = {} if form is None else {name: form.value(name) for name in form.names()}
        for name, value in values.items():
            if form is not None and isinstance(value, list | dict | None):
                form.add(name, f"must be a text, a number or a truth value, but is {describe(value)}")
            elif form is not None:
                check_json(self._problems, form.at(name), value)
        return values

    def _files(self, file_digest: Callable[[str], str]) -> dict[str, Any]:
        files = self._section.mapping("files") if self._section.given("files") else None
        if files is None:
            return {}
        found = {}
        for name in files.names():
            path = files.text(name)
            if path is None:
                continue
            try:
                found[name] = {"path": path, "digest": file_digest(path)}
            except SpecError as error:
                files.add(name, str(error))
        return found

    def _headers(self, around: Surroundings, secrets: Collection[str]) -> dict[str, str]:
        headers = self._section.mapping("headers") if self._section.given("headers") else None
        if headers is None:
            return {}
        # A secret stays what it is called, until the request is sent.
        known = {**around.environ, **{name: f"${{{name}}}" for name in secrets}}
        found = {}
        for name in headers.names():
            if not _HEADER_NAME.fullmatch(name):
                headers.add(name, "is no name of a header")
            elif name.lower() in _OWN_HEADERS:
                headers.add(name, "is set by the client itself; leave it out")
            text, flaws = interpolate(headers.text(name) or "", known, ())
            for flaw in flaws:
                headers.add(name, flaw)
            if text and not _HEADER_VALUE.fullmatch(text):
                headers.add(name, "holds what a header cannot: a line break, or letters beyond Latin-1")
            found[name] = text
        return found
