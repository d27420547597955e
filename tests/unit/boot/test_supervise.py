import io
import os
import signal
from pathlib import Path

import pytest

from glowplug.boot.processes import Process, parse_stat
from glowplug.boot.readiness import Readiness, State, judge, parse_readiness
from glowplug.boot.supervise import DEFAULT_GRACE_S, Ending, grace_period, should_start_cold
from glowplug.errors import UsageError
from glowplug.report.console import Console

ASKED = Readiness(url="http://127.0.0.1:5000/health-check")
CONNECTED = Readiness(tcp=("127.0.0.1", 5000))
ASSUMED = Readiness()

EXIT_0 = Ending(0, None, was_ready=False, failed_setup=False, stopped=False)
EXIT_1 = EXIT_0._replace(status=1)
FAILED_WITH_0 = EXIT_0._replace(failed_setup=True)


def killed(number):
    return EXIT_0._replace(status=128 + number, signal=int(number))


@pytest.mark.parametrize(
    ("ending", "when_explicit", "when_assumed"),
    [
        (EXIT_0, False, False),
        (EXIT_1, True, False),
        (FAILED_WITH_0, True, False),
        (EXIT_1._replace(failed_setup=True), True, False),
        (killed(signal.SIGBUS), True, True),
        (killed(signal.SIGSEGV), True, True),
        (killed(signal.SIGILL), True, True),
        (killed(signal.SIGABRT), True, True),
        (killed(signal.SIGFPE), True, True),
        (EXIT_0._replace(status=139), True, True),  # as a shell or an init tells it
        (killed(signal.SIGKILL), True, False),
        (killed(signal.SIGTERM), True, False),
        (EXIT_0._replace(status=11), True, False),
        (EXIT_0._replace(status=2), True, False),
    ],
)
def test_a_cold_start_follows(ending, when_explicit, when_assumed):
    def decide(ending, readiness, **active):
        return should_start_cold(ending, readiness, **{"cache_was_active": True, **active})

    assert decide(ending, ASKED) is when_explicit
    assert decide(ending, CONNECTED) is when_explicit
    assert decide(ending, ASSUMED) is when_assumed
    for readiness in (ASKED, CONNECTED, ASSUMED):
        assert not decide(ending, readiness, cache_was_active=False)
        assert not decide(ending._replace(was_ready=True), readiness)
        assert not decide(ending._replace(stopped=True), readiness)


@pytest.mark.parametrize(
    ("code", "body", "state"),
    [
        (200, b"", State.READY),
        (204, b"", State.READY),
        (302, b"", State.STARTING),
        (404, b"", State.STARTING),
        (503, b"", State.STARTING),
        (200, b'{"status": "READY"}', State.READY),
        (200, b'{"status": "BUSY"}', State.READY),
        (200, b'{"status": "ok"}', State.READY),
        (200, b'{"status": "healthy"}', State.READY),
        (200, b'{"status": "STARTING"}', State.STARTING),
        (200, b'{"status": "UNHEALTHY"}', State.STARTING),
        (200, b'{"status": "loading"}', State.STARTING),
        (503, b'{"status": "READY"}', State.STARTING),
        (200, b'{"status": "SETUP_FAILED"}', State.FAILED),
        (200, b'{"status": "DEFUNCT"}', State.FAILED),
        (503, b'{"status": "DEFUNCT"}', State.FAILED),
        (200, b"{}", State.READY),
        (200, b'{"status": 200}', State.READY),
        (200, b'{"status": null}', State.READY),
        (200, b'["status"]', State.READY),
        (200, b"[" * 100_000, State.READY),
        (200, b'{"status": "STAR', State.READY),
        (200, b"\xff\xfe\xfd", State.READY),
    ],
)
def test_what_an_answer_means(code, body, state):
    assert judge(code, body) is state


@pytest.mark.parametrize(
    ("text", "readiness"),
    [
        (None, Readiness()),
        ("", Readiness()),
        ("http://127.0.0.1:5000/health-check", Readiness(url="http://127.0.0.1:5000/health-check")),
        ("https://localhost/", Readiness(url="https://localhost/")),
        ("localhost:8000", Readiness(tcp=("localhost", 8000))),
        ("[::1]:8000", Readiness(tcp=("::1", 8000))),
    ],
)
def test_how_readiness_is_written(text, readiness):
    assert parse_readiness(text) == readiness


@pytest.mark.parametrize(
    "text", ["yes", "8000", ":8000", "localhost:", "localhost:http", "host:65536", "ftp://host/"]
)
def test_what_is_no_readiness(text):
    with pytest.raises(UsageError, match="neither a URL nor HOST:PORT"):
        parse_readiness(text)


def test_a_name_in_proc_may_hold_anything():
    assert parse_stat("17 (a) Z (b\n) S 4 12 12 0 -1") == Process(17, "S", 4, 12)
    line = Path("/proc/self/stat").read_text()
    assert parse_stat(line) == Process(os.getpid(), "R", os.getppid(), os.getpgrp())


@pytest.mark.parametrize(
    ("text", "grace_s"), [("", DEFAULT_GRACE_S), ("8", 8.0), ("0.5", 0.5), ("0", 0.0), (" 9 ", 9.0)]
)
def test_the_grace_period(text, grace_s):
    heard = io.StringIO()
    assert grace_period({"GLOWPLUG_GRACE_S": text}, Console(heard)) == grace_s
    assert heard.getvalue() == ""


@pytest.mark.parametrize("text", ["30s", "-1", "inf", "nan", "-"])
def test_a_grace_period_that_is_none(text):
    heard = io.StringIO()
    assert grace_period({"GLOWPLUG_GRACE_S": text}, Console(heard)) == DEFAULT_GRACE_S
    assert heard.getvalue() == f"warning: GLOWPLUG_GRACE_S is no number of seconds: {text}; using 25\n"


def test_the_grace_period_needs_no_setting():
    assert grace_period({}, Console(io.StringIO())) == DEFAULT_GRACE_S
