import os
import signal

import pytest

from glowplug.boot.signals import Signals


@pytest.fixture
def signals():
    with Signals(has_terminal=False) as signals:
        yield signals


def send_to_us(*numbers):
    for number in numbers:
        signal.raise_signal(number)  # to this thread: there may be others that do not hold signals back


def test_signals_are_read_in_order(signals):
    send_to_us(signal.SIGUSR2)
    send_to_us(signal.SIGTERM)
    send_to_us(signal.SIGUSR1)
    assert list(signals.wait(None)) == [signal.SIGUSR2, signal.SIGTERM, signal.SIGUSR1]
    assert signals.wait(0) == b""


def test_a_wake_up_is_no_signal(signals):
    signals.wake()
    assert signals.wait(None) == b"\0"


def test_while_a_child_is_made_signals_wait(signals):
    with signals.held_back():
        send_to_us(signal.SIGTERM)
        assert signals.wait(0) == b""
    assert list(signals.wait(None)) == [signal.SIGTERM]


def test_a_signal_for_a_child_that_is_being_made_has_its_default_effect_there(signals):
    with signals.held_back():
        child = os.fork()
        if not child:
            send_to_us(signal.SIGTERM)
            signals.reset_in_child()
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM
    assert set(signals.wait(0)) <= {signal.SIGCHLD}  # it did not write into our pipe


def test_afterwards_everything_is_as_before(signals):
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGCHLD)}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    with Signals(has_terminal=True) as inner:
        assert signal.getsignal(signal.SIGTTOU) is signal.SIG_IGN
        assert signal.SIGTTOU not in inner.received
        send_to_us(signal.SIGUSR1)  # although it was blocked
        assert list(inner.wait(None)) == [signal.SIGUSR1]
    assert signal.pthread_sigmask(signal.SIG_SETMASK, mask) == mask | {signal.SIGUSR1}
    assert {number: signal.getsignal(number) for number in before} == before
    send_to_us(signal.SIGUSR2)
    assert list(signals.wait(None)) == [signal.SIGUSR2]


def test_what_was_ignored_is_not_received():
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals(has_terminal=False) as signals:
            assert signal.SIGHUP not in signals.received
            send_to_us(signal.SIGHUP)
            assert signals.wait(0) == b""
    finally:
        signal.signal(signal.SIGHUP, previous)
