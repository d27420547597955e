"""Deadlines, pauses, retries, and what a reply means."""

from __future__ import annotations

import time

import pytest

from glowplug.core.integrity import verified
from glowplug.core.oci import LAYER_TYPE, Descriptor, digest_of
from glowplug.errors import DeniedError, IntegrityError, NotFoundError, UnavailableError
from glowplug.registry.options import Deadline
from glowplug.registry.replies import Reply, failure
from glowplug.registry.retry import MAX_PAUSE_S, TransientError, pause_s, retried, wait


def test_a_deadline_counts_down() -> None:
    now = [100.0]
    deadline = Deadline(5.0, lambda: now[0])
    assert deadline.left_s("this") == 5.0
    now[0] = 105.0
    with pytest.raises(UnavailableError, match="this did not finish within 5 s"):
        deadline.left_s("this")
    assert Deadline(None).left_s("that") == float("inf")


def test_pauses_grow_and_never_undercut_the_registrys_advice() -> None:
    assert [pause_s(attempt, None, 0.5) for attempt in range(3)] == [0.25, 0.5, 1.0]
    assert pause_s(0, None, 0.0) < pause_s(0, None, 0.9)
    assert pause_s(0, 7.0, 0.0) == 7.0


def test_a_wait_that_is_not_worth_it_is_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    for retry_after_s, timeout_s in ((MAX_PAUSE_S + 1, None), (5.0, 2.0)):
        error = TransientError("busy", retry_after_s=retry_after_s)
        with pytest.raises(TransientError) as caught:
            wait(0, error, Deadline(timeout_s, lambda: 0.0))
        assert caught.value is error
    passing = iter([0.0, 3.0])
    with pytest.raises(TransientError, match="busy"):
        wait(0, TransientError("busy"), Deadline(2.0, lambda: next(passing)))
    assert slept == []
    wait(0, TransientError("busy", retry_after_s=2.0), Deadline(None))
    assert slept == [2.0]


def test_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    outcomes: list[Exception | str] = [TransientError("1"), TransientError("2"), "done", DeniedError("no")]

    def operation() -> str:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    assert retried(operation, 2, Deadline(None)) == "done"
    with pytest.raises(DeniedError):
        retried(operation, 2, Deadline(None))
    outcomes[:] = [TransientError("1"), TransientError("2")]
    with pytest.raises(TransientError, match="2"):
        retried(operation, 1, Deadline(None))


@pytest.mark.parametrize(
    ("reply", "error", "text"),
    [
        (Reply(401, {}), DeniedError, "cannot push x: the registry answers 401"),
        (Reply(403, {}, b'{"errors":[{"code":"DENIED","message":"m"}]}'), DeniedError, "403 DENIED: m"),
        (Reply(404, {}, b'{"errors":[]}'), NotFoundError, "404"),
        (Reply(404, {"Content-Type": "text/html"}), UnavailableError, "no registry"),
        (Reply(400, {}, b'{"errors":[{"code":"DIGEST_INVALID"}]}'), IntegrityError, "DIGEST_INVALID"),
        (Reply(501, {}, b'{"errors":[null]}'), UnavailableError, "501"),
        (Reply(413, {}, b"\xff"), UnavailableError, "413"),
    ],
)
def test_what_a_refusal_means(reply: Reply, error: type[Exception], text: str) -> None:
    caught = failure(reply, "push x")
    assert isinstance(caught, error)
    assert not isinstance(caught, TransientError)
    assert text in str(caught)


@pytest.mark.parametrize(
    ("value", "seconds"), [("3", 3.0), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("-1", None)]
)
def test_retry_after(value: str, seconds: float | None) -> None:
    caught = failure(Reply(429, {"Retry-After": value}), "push x")
    assert isinstance(caught, TransientError)
    assert caught.retry_after_s == seconds


def test_a_long_message_is_cut_and_made_printable() -> None:
    body = b'{"errors":[{"code":"X","message":"' + b"\\u001b[31m" * 500 + b'"}]}'
    text = str(failure(Reply(400, {}, body), "push x"))
    assert text.isprintable()
    assert len(text) < 300


@pytest.mark.parametrize("chunks", [[b"abc"], [b"a", b"bc"], [b"", b"abc", b""]])
def test_verified_passes_the_right_bytes(chunks: list[bytes]) -> None:
    descriptor = Descriptor(LAYER_TYPE, digest_of(b"abc"), 3)
    assert b"".join(verified(chunks, descriptor)) == b"abc"


@pytest.mark.parametrize("chunks", [[], [b"ab"], [b"abx"], [b"abc", b"d"], [b"abcd"]])
def test_verified_stops_at_wrong_ones(chunks: list[bytes]) -> None:
    descriptor = Descriptor(LAYER_TYPE, digest_of(b"abc"), 3)
    received: list[bytes] = []
    with pytest.raises(IntegrityError, match=descriptor.digest):
        received.extend(verified(chunks, descriptor))
    assert len(b"".join(received)) <= 3
