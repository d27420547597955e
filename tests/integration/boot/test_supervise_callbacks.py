"""Callbacks that fail, hang, and start processes, beside a server that must not notice."""

import os
import signal
import sys
import time

import pytest

from integration.boot.supervisors import until
from integration.boot.test_supervise import LISTENER

CALLBACKS = ["on_ready", "on_tick", "on_stopping", "on_stopped"]


@pytest.mark.parametrize("name", CALLBACKS)
@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("raise", "{name}: RuntimeError: a bug (please report this)"),
        ("exit", "{name}: SystemExit: 5 (please report this)"),
        ("fail", "the registry is down\n  start it"),
    ],
)
def test_a_callback_that_fails_is_told(supervised, name, how, told):
    supervisor = supervised("sleep", "1000", assumed_s=0, **{name: how})
    supervisor.await_event("on_tick")
    supervisor.process.send_signal(signal.SIGTERM)
    assert supervisor.end() == 128 + signal.SIGTERM
    assert f"warning: {told.format(name=name)}\n" in supervisor.errors
    assert [called for called in supervisor.names if called in CALLBACKS] == CALLBACKS


@pytest.mark.parametrize("name", CALLBACKS)
def test_a_callback_that_hangs_delays_no_signal_and_not_the_end(supervised, name):
    supervisor = supervised(sys.executable, "-c", LISTENER, assumed_s=0, grace_s=1.0, **{name: "hang"})
    supervisor.wrote("state")
    supervisor.await_event("on_ready" if name == "on_ready" else "on_tick")
    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR2):
        supervisor.process.send_signal(number)
        until(lambda number=number: str(int(number)) in supervisor.wrote("signals").split())
    assert supervisor.end() == 128 + signal.SIGKILL
    assert "on_stopping" in supervisor.names
    if name != "on_stopped":
        assert f"{name} took longer than the grace period, and is left behind" in supervisor.errors
        assert "on_stopped" not in supervisor.names


def test_a_callback_that_is_at_work_is_told_to_hurry_and_waited_for(supervised):
    """``on_stopping`` comes while ``on_tick`` is at work, ``on_stopped`` after it."""
    supervisor = supervised("sleep", "1000", assumed_s=0, on_tick="process")
    supervisor.await_event("on_tick")
    supervisor.process.send_signal(signal.SIGTERM)
    supervisor.end()
    names = [event[0] for event in supervisor.events]
    assert names.index("on_stopping") < names.index("on_stopped")
    assert names.count("on_tick") == names.count("on_tick done")
    assert names[-3:] == ["on_stopped", "on_stopped done", "ending"]


def test_asked_twice_it_does_not_wait_for_the_last_callback(supervised):
    supervisor = supervised("sleep", "1000", on_stopped="hang", grace_s=3600)
    until(lambda: supervisor.child)
    supervisor.process.send_signal(signal.SIGTERM)
    supervisor.await_event("on_stopped")
    supervisor.process.send_signal(signal.SIGINT)
    assert supervisor.end() == 128 + signal.SIGTERM


def test_processes_of_a_callback_are_not_reaped_under_its_hands(supervised):
    orphans = "while :; do sh -c 'sleep 0.01 & echo $! >> pids'; done"
    supervisor = supervised("sh", "-c", orphans, assumed_s=0, on_tick="process", on_stopped="process")
    supervisor.await_event("on_tick done")
    supervisor.process.send_signal(signal.SIGTERM)
    supervisor.end()
    results = [event[1] for event in supervisor.events if event[0] in ("on_tick done", "on_stopped done")]
    assert len(results) >= 2
    assert {status for result in results for status in result} == {7}


def test_without_callbacks_nothing_is_waited_for(supervised):
    supervisor = supervised("true", without=["on_ready", "on_tick", "on_stopping", "on_stopped"])
    assert supervisor.end() == 0
    assert supervisor.names == ["ending"]


def test_no_tick_begins_once_it_is_being_stopped(supervised):
    supervisor = supervised(sys.executable, "-c", LISTENER, assumed_s=0)
    supervisor.wrote("state")
    supervisor.await_event("on_tick")
    supervisor.process.send_signal(signal.SIGTERM)
    supervisor.await_event("on_stopping done")
    time.sleep(0.5)  # for several ticks
    os.kill(supervisor.child, signal.SIGKILL)
    supervisor.end()
    names = [event[0] for event in supervisor.events]
    assert names[names.index("on_stopping") :].count("on_tick") <= 1  # one that had begun
