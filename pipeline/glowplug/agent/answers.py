"""Stores what a server answered, and compares it with what it answered in another run.

JSON is compared as JSON, number by number; an event stream as the list of its events; other text as it is, and
anything else by its digest. A stand-alone file for the model's environment: Python 3.9, the standard library.
"""

import hashlib
import json
import math
import sys


class Answers:
    """Stores and compares answers; what keys of JSON objects in ``ignored`` hold is left out of comparisons."""

    SUFFIX = ".json"

    def __init__(self, ignored):
        self._ignored = frozenset(ignored)

    def flatten(self, answer):
        """Return what is compared of an answer: its leaves, as a list of ``[path, content]``."""
        kind, content = read(answer.content_type, answer.body)
        leaves = [["kind", kind], *self._leaves(content, "output")]
        return [["status", answer.status], *leaves]

    def _leaves(self, value, path):
        if isinstance(value, dict):
            kept = {name: item for name, item in value.items() if name not in self._ignored}
            yield [path, "an object of %d" % len(kept)]
            for name in sorted(kept):
                yield from self._leaves(kept[name], "%s.%s" % (path, name))
        elif isinstance(value, list):
            yield [path, "a list of %d" % len(value)]
            for index, item in enumerate(value):
                yield from self._leaves(item, "%s[%d]" % (path, index))
        else:
            yield [path, [value]]

    def save(self, leaves, path):
        """Write the leaves of one answer."""
        with open(path, "w") as stream:
            json.dump(leaves, stream)

    def load(self, path):
        """Read what ``save`` wrote."""
        with open(path) as stream:
            return json.load(stream)

    def compare(self, expected, actual, tolerance):
        """Compare the leaves of two answers; the report is that of outputs.py, and so is the rule for numbers.

        Two numbers agree when ``|a - b| <= tolerance + tolerance * |a|``, two whole numbers when they are equal.
        """
        report = {"equal": True, "max_difference": 0.0, "compared": 0, "reason": ""}
        if [_shape(leaf) for leaf in expected] != [_shape(leaf) for leaf in actual]:
            pairs = zip(map(_shape, expected), map(_shape, actual))
            want, got = next((want, got) for want, got in pairs if want != got)
            there = got[1] if got[0] == want[0] else "something else"
            report.update(equal=False, reason="%s: %s became %s" % (*want, there))
            return report
        for (path, want), (_, got) in zip(expected, actual):
            if not isinstance(want, list):
                continue
            report["compared"] += want != [""]
            difference, reason = _compare_leaf(want[0], got[0], tolerance)
            report["max_difference"] = max(report["max_difference"], min(difference, sys.float_info.max))
            if reason and report["equal"]:
                report.update(equal=False, reason="%s: %s" % (path, reason))
        return report


def _shape(leaf):
    path, content = leaf
    if not isinstance(content, list):
        return path, content
    return path, "number" if _is_number(content[0]) else type(content[0]).__name__


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_nan(number):
    return isinstance(number, float) and math.isnan(number)


def _compare_leaf(want, got, tolerance):
    """Return the difference of two values of one type, and what is wrong with it."""
    if not _is_number(want):
        return 0.0, "" if want == got else "%s differs" % ("text" if isinstance(want, str) else "the value")
    if want == got or (_is_nan(want) and _is_nan(got)):
        return 0.0, ""
    changed = "%s became %s" % (_shown(want), _shown(got))
    if isinstance(want, int) and isinstance(got, int):
        return _as_float(abs(want - got)), changed
    a, b = _as_float(want), _as_float(got)
    difference = abs(a - b)
    if difference <= tolerance + tolerance * abs(a) < float("inf"):
        return difference, ""
    return 0.0 if math.isnan(difference) else difference, changed


def _as_float(number):
    """Return a number of JSON, where a whole one may have any size, as one of the machine's."""
    try:
        return float(number)
    except OverflowError:
        return float("inf")


def _shown(number):
    if isinstance(number, int) and abs(number) >= 2**63:
        return "a number of %d digits" % len(str(abs(number)))
    return repr(number)


def read(content_type, body):
    """Return what kind of answer it is and what it holds, as JSON."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "text/event-stream":
        return "events", [_json_or_text(data) for data in _events(body.decode("utf-8", "replace"))]
    try:
        if kind.endswith("json") and "ndjson" not in kind:
            return "json", json.loads(body)
        if "ndjson" in kind or "jsonl" in kind:
            return "events", [json.loads(line) for line in body.splitlines() if line.strip()]
        if kind.startswith("text/") or not body:
            return "text", body.decode()
    except (ValueError, RecursionError):  # it is not what its header says
        pass
    return "bytes", "%d bytes, sha256:%s" % (len(body), hashlib.sha256(body).hexdigest())


def _events(text):
    """Yield the data of every event of a stream (WHATWG HTML, server-sent events); comments keep a connection alive."""
    data = []
    for line in [*text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), ""]:
        if line.startswith("data:"):
            data.append(line[6:] if line.startswith("data: ") else line[5:])
        elif not line and data:
            yield "\n".join(data)
            data = []


def _json_or_text(text):
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
