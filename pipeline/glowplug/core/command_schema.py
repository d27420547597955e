"""A server in the ``run`` section of ``glowplug.yaml``: its command, when it is ready, how it is stopped."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from glowplug.core.command_spec import IGNORED_KEYS, CommandWorkload, ReadyCondition, StopRequest
from glowplug.core.document import Problems, Section, check_json, describe
from glowplug.core.interpolation import interpolate, interpolated
from glowplug.core.request_schema import REQUEST_KEYS

COMMAND_KEYS: Mapping[str, tuple[str, ...]] = {
    "run.ready": ("url", "log", "json", "status", "timeout_s"),
    "run.requests": REQUEST_KEYS,
    "run.stop": ("signal", "timeout_s"),
}

_SIGNALS = ("SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2")
_READY_SCHEMES = ("http", "https", "tcp")
_READY_ADVICE = "write ready: http://127.0.0.1:8000/health, tcp://127.0.0.1:8000 or {log: started}"


def parse_command(
    section: Section, problems: Problems, environ: Mapping[str, str], secrets: Collection[str]
) -> CommandWorkload:
    """Read the keys of a command; a part that is wrong is noted in ``problems`` and stands in as an empty value."""
    parser = _Parser(section, problems, environ, secrets)
    ready = parser.ready()
    return CommandWorkload(
        parser.command(),
        parser.url(ready),
        ready,
        parser.stop(),
        parser.ignore(),
        section.text("dir") or CommandWorkload.dir,
    )


class _Parser:
    def __init__(
        self, section: Section, problems: Problems, environ: Mapping[str, str], secrets: Collection[str]
    ) -> None:
        self._section = section
        self._problems = problems
        self._environ = environ
        self._secrets = secrets

    def command(self) -> tuple[str, ...]:
        replaced = []
        for path, word in self._words():
            text, flaws = interpolate(word, self._environ, self._secrets)
            for flaw in flaws:
                self._problems.add(path, flaw)
            replaced.append(text)
        return tuple(replaced)

    def _words(self) -> list[tuple[str, str]]:
        """Return the words with their paths: those of a list, or of a text as a shell would split it."""
        path = self._section.at("command")
        value = self._section.value("command")
        if isinstance(value, list):
            if not value:
                self._section.add("command", "lists nothing; write [python, server.py]")
            words = [(f"{path}[{number}]", word) for number, word in enumerate(value)]
            for here, word in words:
                if not isinstance(word, str):
                    self._problems.expected_text(here, word)
            return [(here, word) for here, word in words if isinstance(word, str)]
        text = self._section.text("command")
        try:
            return [(path, word) for word in shlex.split(text or "")]
        except ValueError as error:
            self._section.add("command", f"cannot be split into words: {str(error).lower()}")
            return []

    def ready(self) -> ReadyCondition:
        if not self._section.require("ready", _READY_ADVICE) or not self._section.given("ready"):
            return ReadyCondition()
        if not isinstance(self._section.value("ready"), Mapping):
            return ReadyCondition(url=self._url(self._section, "ready", _READY_SCHEMES))
        ready = self._section.mapping("ready", COMMAND_KEYS["run.ready"])
        return ReadyCondition() if ready is None else self._ready_from(ready)

    def _ready_from(self, ready: Section) -> ReadyCondition:
        is_spelt = all(name in COMMAND_KEYS["run.ready"] for name in ready.names())
        if is_spelt and ("url" in ready) == ("log" in ready):
            self._section.add("ready", "must have either url or log")
        url = self._url(ready, "url", _READY_SCHEMES)
        wanted = ready.mapping("json") if ready.given("json") else None
        if wanted is not None:
            check_json(self._problems, ready.at("json"), ready.value("json"))
        status = ready.integer("status", 100, 599)
        for key in ("json", "status"):
            if key in ready and not (url or "http").startswith("http"):
                ready.add(key, "only an HTTP answer has one")
            elif key in ready and "log" in ready:
                ready.add(key, "a line of the log has none")
        timeout_s = ready.number("timeout_s", 1)
        return ReadyCondition(
            url,
            self._pattern(ready),
            None if wanted is None else ready.value("json"),
            status,
            ReadyCondition.timeout_s if timeout_s is None else float(timeout_s),
        )

    def _pattern(self, ready: Section) -> str | None:
        pattern = ready.text("log")
        try:
            re.compile(pattern or "")
        except re.error as error:
            ready.add("log", f"is no regular expression: {error}")
        return pattern

    def url(self, ready: ReadyCondition) -> str:
        """Return where requests go: what the spec says, or where it asks whether the server is ready."""
        if "url" in self._section:
            url = self._url(self._section, "url", ("http", "https"))
            if url is not None and urlsplit(url).path.strip("/"):
                self._section.add("url", "must end after the port; the path belongs to each request")
            return (url or "").rstrip("/")
        if ready.log is not None:
            self._problems.add("run", "url is missing; write url: http://127.0.0.1:8000, where requests go")
        if ready.url is None:
            return ""
        parts = urlsplit(ready.url)
        return f"{'http' if parts.scheme == 'tcp' else parts.scheme}://{parts.netloc}"

    def _url(self, section: Section, key: str, schemes: Collection[str]) -> str | None:
        url = interpolated(section, key, self._environ, self._secrets)
        flaw = _url_flaw(url, schemes) if url is not None else None
        if flaw:
            section.add(key, flaw)
        return None if flaw else url

    def stop(self) -> StopRequest:
        stop = (
            self._section.mapping("stop", COMMAND_KEYS["run.stop"]) if self._section.given("stop") else None
        )
        if stop is None:
            return StopRequest()
        name = stop.text("signal")
        if name is not None and name not in _SIGNALS:
            stop.add("signal", f"must be one of {', '.join(_SIGNALS)}, but is {describe(name)}")
        timeout_s = stop.number("timeout_s", 0)
        return StopRequest(
            name or StopRequest.signal, StopRequest.timeout_s if timeout_s is None else float(timeout_s)
        )

    def ignore(self) -> tuple[str, ...]:
        names: list[Any] = list(self._section.items("ignore") or ())
        for number, name in enumerate(names):
            if not isinstance(name, str):
                self._problems.expected_text(f"{self._section.at('ignore')}[{number}]", name)
        return tuple(names) if "ignore" in self._section else IGNORED_KEYS


def _url_flaw(url: str, schemes: Collection[str]) -> str | None:
    choice = ", ".join(f"{scheme}://" for scheme in schemes)
    try:
        parts: SplitResult = urlsplit(url)
        has_port = parts.port is not None
    except ValueError:
        return f"'{url}' has no port that could be read"
    if parts.scheme not in schemes or not parts.hostname:
        return f"must start with {choice} and name a host, but is '{url}'"
    if parts.username is not None:
        return "must not hold a user or a password; use a header of the request"
    if parts.scheme == "tcp" and (not has_port or parts.path.strip("/")):
        return f"must look like tcp://127.0.0.1:8000, but is '{url}'"
    return None
