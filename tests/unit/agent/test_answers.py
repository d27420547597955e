"""What of two answers of a server is compared, and how."""

import json

import pytest

from glowplug.agent.answers import Answers, read
from glowplug.agent.http_requests import Answer

JSON = "application/json; charset=utf-8"
TOLERANCE = 1e-3


def flat(value, ignored=(), content_type=JSON, status=200):
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Answers(ignored).flatten(Answer(status, content_type, body))


def compare(first, second, ignored=(), content_type=JSON):
    answers = Answers(ignored)
    return answers.compare(flat(first, ignored, content_type), flat(second, ignored, content_type), TOLERANCE)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"a": 1, "b": [None, True, "x"]}, {"b": [None, True, "x"], "a": 1}),
        (1.0, 1.0009),
        (1000.0, 1000.9),
        (1, 1.0),
        (float("nan"), float("nan")),
        (float("inf"), float("inf")),
        (10**400, 10**400),
        (-0.0, 0.0),
    ],
)
def test_answers_that_agree(first, second):
    report = compare(first, second)
    assert report["equal"], report
    assert report["compared"] > 0
    json.dumps(report, allow_nan=False)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ({"a": [0.0, 1.0]}, {"a": [0.0, 1.1]}, "output.a[1]: 1.0 became 1.1"),
        (7, 8, "output: 7 became 8"),
        (10**400, 1.0, "output: a number of 401 digits became 1.0"),
        (10**400, 10**400 + 1, "output: a number of 401 digits became a number of 401 digits"),
        (1.0, float("nan"), "output: 1.0 became nan"),
        (1.0, float("inf"), "output: 1.0 became inf"),
        (True, 1, "output: bool became number"),
        (None, "x", "output: NoneType became str"),
        ("x", "y", "output: text differs"),
        (True, False, "output: the value differs"),
        ([1], [1, 2], "output: a list of 1 became a list of 2"),
        ({"a": 1}, {"b": 1}, "output.a: number became something else"),
        ({"a": 1}, [1], "output: an object of 1 became a list of 1"),
    ],
)
def test_answers_that_differ(first, second, reason):
    report = compare(first, second)
    assert (report["equal"], report["reason"]) == (False, reason)
    json.dumps(report, allow_nan=False)


def test_the_largest_difference_is_kept():
    report = compare([1.0, 5.0, 2.0], [1.0, 7.0, 3.0])
    assert report["max_difference"] == 2.0
    assert report["reason"] == "output[1]: 5.0 became 7.0"


def test_another_status_is_another_answer():
    report = Answers(()).compare(flat({}), flat({}, status=201), TOLERANCE)
    assert report["reason"] == "status: 200 became 201"


def test_ignored_keys_are_left_out_wherever_they_are():
    first = {"id": "a", "choices": [{"text": "x", "id": 1}], "created": 5}
    second = {"choices": [{"text": "x", "id": [2, 3]}], "created": 6, "id": "b"}
    assert compare(first, second, ["id", "created"])["equal"]
    assert not compare(first, second, ["created"])["equal"]
    nothing = compare({"id": 1}, {"id": 1}, ["id"])
    assert (nothing["equal"], nothing["compared"]) == (True, 0)


@pytest.mark.parametrize(
    ("content_type", "body", "kind", "content"),
    [
        ("application/problem+json", b'{"a": 1}', "json", {"a": 1}),
        ("Application/JSON", b"[]", "json", []),
        ("application/json", b"not json", "bytes", None),
        ("text/html; charset=utf-8", "é".encode(), "text", "é"),
        ("text/plain", b"\xff", "bytes", None),
        ("", b"", "text", ""),
        ("image/png", b"\x89PNG", "bytes", None),
        ("application/x-ndjson", b'{"a": 1}\n\n{"a": 2}\n', "events", [{"a": 1}, {"a": 2}]),
        (
            "text/event-stream",
            b': ping\r\n\r\nevent: x\r\ndata: {"a":\r\ndata: 1}\r\n\r\nid: 7\r\ndata:[DONE]\r\n\r\ndata: cut',
            "events",
            [{"a": 1}, "[DONE]", "cut"],
        ),
    ],
)
def test_kinds_of_answers(content_type, body, kind, content):
    found = read(content_type, body)
    assert found[0] == kind
    assert found[1] == content if content is not None else "sha256:" in found[1]


def test_binary_answers_are_compared_by_digest():
    assert compare(b"\x00a", b"\x00a", content_type="image/png")["equal"]
    report = compare(b"\x00a", b"\x00b", content_type="image/png")
    assert report["reason"] == "output: text differs"


def test_an_empty_answer_holds_nothing_to_compare():
    assert compare(b"", b"", content_type="")["compared"] == 0


def test_what_is_saved_is_loaded_the_same(tmp_path):
    answers = Answers(())
    leaves = flat({"a": [1.5, None, "é\ud800", float("inf")], "b": {}})
    answers.save(leaves, tmp_path / "0.json")
    assert answers.compare(leaves, answers.load(tmp_path / "0.json"), 0.0)["equal"]
