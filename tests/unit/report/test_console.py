import io
import os
import pty
import re
import sys
import threading

import pytest

from glowplug.report import console
from glowplug.report.console import Console, printable, size_text

SECONDS = re.compile(r"\(\d+\.\d s\)")


def said(act, environ=None):
    """What a console says without a terminal, with the seconds left out."""
    stream = io.StringIO()
    act(Console(stream, environ or {}))
    return SECONDS.sub("(s)", stream.getvalue())


class Terminal:
    """A real terminal, and what was shown on it."""

    def __init__(self):
        self._master, follower = pty.openpty()
        self.stream = os.fdopen(follower, "w")

    def shown(self):
        self.stream.close()
        text = b""
        while chunk := self._read():
            text += chunk
        os.close(self._master)
        return SECONDS.sub("(s)", text.decode().replace("\r\n", "\n"))

    def _read(self):
        try:
            return os.read(self._master, 4096)
        except OSError:  # Linux says so when the other side is closed
            return b""


def shown(act, environ=None):
    terminal = Terminal()
    act(Console(terminal.stream, environ or {"TERM": "xterm"}))
    return terminal.shown()


def every_way(c):
    c.line("a line")
    c.note("a note")
    c.warn("a warning")
    c.error("an error", "a hint")
    c.error("another error")


PLAIN = "a line\n  a note\nwarning: a warning\nerror: an error\nhint: a hint\nerror: another error\n"


def test_without_a_terminal_there_is_no_colour():
    assert said(every_way) == PLAIN


def test_a_terminal_has_colour():
    assert shown(every_way) == (
        "a line\n\x1b[2m  a note\x1b[0m\n\x1b[33mwarning:\x1b[0m a warning\n"
        "\x1b[31merror:\x1b[0m an error\n\x1b[1mhint:\x1b[0m a hint\n\x1b[31merror:\x1b[0m another error\n"
    )


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"NO_COLOR": "1", "TERM": "xterm"}])
def test_a_terminal_may_refuse_colour(environ):
    assert shown(every_way, environ) == PLAIN


def test_an_empty_no_color_is_none():
    assert "\x1b[33m" in shown(every_way, {"NO_COLOR": ""})


def one_step(c):
    with c.step("Pack") as step:
        step.progress("half")
        step.progress("nearly")
        step.result = "3 MB"


def test_a_step_without_a_terminal_is_two_lines():
    assert said(one_step) == "- Pack\n✓ Pack: 3 MB (s)\n"


def test_progress_on_a_terminal_is_shown_in_place():
    text = shown(one_step, {"TERM": "xterm", "NO_COLOR": "1"})
    assert text == "Pack: half\r          \rPack: nearly\r            \r✓ Pack: 3 MB (s)\n"


def test_a_line_during_a_step_does_not_mix_with_the_progress():
    def act(c):
        with c.step("Pack") as step:
            step.progress("half")
            c.warn("strange")

    text = shown(act, {"TERM": "xterm", "NO_COLOR": "1"})
    assert text == "Pack: half\r          \rwarning: strange\n✓ Pack (s)\n"


def test_progress_is_cut_at_the_terminal_s_width(monkeypatch):
    monkeypatch.setattr(console, "_width", lambda: 30)
    text = shown(lambda c: c.progress("x" * 100), {"TERM": "xterm"})
    assert text == "x" * 29


def test_a_long_step_without_a_terminal_shows_that_it_is_alive(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])

    def act(c):
        with c.step("Capture") as step:
            for _ in range(6):
                now[0] += 12
                step.progress(f"{now[0] - 1000:.0f} s")

    assert said(act) == "- Capture\n  Capture: 36 s\n  Capture: 72 s\n✓ Capture (s)\n"


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()])
def test_a_step_that_fails_is_crossed(error):
    def fail(c):
        with c.step("Pack") as step:
            step.result = "never"
            raise error

    def act(c):
        with pytest.raises(type(error)):
            fail(c)

    assert said(act) == "- Pack\n✗ Pack (s)\n"


def test_several_threads_do_not_mix_their_lines():
    stream = io.StringIO()
    talker = Console(stream, {})
    threads = [
        threading.Thread(target=lambda n=n: [talker.line(str(n) * 50) for _ in range(50)]) for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 200
    assert {len(line) for line in lines} == {50}
    assert all(len(set(line)) == 1 for line in lines)


def test_nobody_listening_is_no_reason_to_stop(monkeypatch):
    class Broken(io.StringIO):
        def write(self, _text):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", None)
    for stream in (Broken(), None):
        talker = Console(stream, {})
        every_way(talker)
        one_step(talker)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1049, "1.0 kB"),
        (58_916, "58.9 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (1_000_000, "1.0 MB"),
        (147_000_000, "147.0 MB"),
        (999_999_999, "1.00 GB"),
        (1_234_567_890, "1.23 GB"),
        (20_000_000_000, "20.00 GB"),
    ],
)
def test_sizes_are_written_as_people_read_them(size_bytes, text):
    assert size_text(size_bytes) == text


@pytest.mark.parametrize("say", [Console.warn, Console.note, Console.error])
def test_text_from_elsewhere_cannot_steer_the_terminal(say):
    stream = io.StringIO()
    say(Console(stream, {}), "torch \x1b[2J\x9b2K\r2.0\n  next line")
    assert stream.getvalue().endswith("torch \ufffd[2J\ufffd2K\ufffd2.0\n  next line\n")


def test_what_people_write_stays_as_it_is():
    assert printable("modèle ≠ 模型\t✓\n") == "modèle ≠ 模型\t✓\n"
