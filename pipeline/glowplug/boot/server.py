"""A running server as its parent sees it: signals for it, its stops and continuations, and its end."""

from __future__ import annotations

import os
import signal

from glowplug.boot.processes import send
from glowplug.boot.signals import Signals
from glowplug.boot.terminal import Terminal, stop_job

# What a terminal sends to its whole foreground group: keys, a new size, and that it is gone.
_FROM_TERMINAL = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGWINCH, signal.SIGHUP})
_USED_TERMINAL = frozenset({signal.SIGTTIN, signal.SIGTTOU})


class Server:
    """A child that leads a process group.

    With a terminal it starts in the background, so that keys (Ctrl-C) come to us, and reach it once. When it reads the
    terminal the kernel stops it; then it gets the foreground and goes on. It keeps it, like a shell's job, so that an
    interactive command works as ever; servers never ask for it.

    Attributes:
        pid: the child's id, and its group's; nobody else's as long as there is no ``status``.
        status: what it ended with, as a shell has it: 128 + n when signal n killed it.
        signal: the signal that killed it.
        had_terminal: it had the foreground, so that keys went to it and not to us.
    """

    def __init__(self, pid: int, terminal: Terminal | None) -> None:
        self.pid = pid
        self.status: int | None = None
        self.signal: int | None = None
        self.had_terminal = False
        self._terminal = terminal

    def forward(self, number: int) -> None:
        """Pass a signal on: to the child alone, or to its group when it is the terminal that speaks to all."""
        if self.status is not None:
            return
        if self._terminal is None:
            send(self.pid, number)
        elif number == signal.SIGCONT:
            self._go_on(self._terminal)
        else:
            to_all = number in _FROM_TERMINAL and self._terminal.is_ours()
            send(-self.pid if to_all else self.pid, number)

    def look(self) -> None:
        """Notice what became of the child since the last look."""
        while self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            if not pid:
                return
            if os.WIFSTOPPED(status):
                self._was_stopped(os.WSTOPSIG(status))
            else:
                self._ended(status)

    def await_end(self, signals: Signals) -> None:
        """Do the least: pass on signals, and wait."""
        for number in signals.received:
            signal.signal(number, lambda number, _frame: self.forward(number))
        if self.status is None:
            self._ended(os.waitpid(self.pid, 0)[1])

    def _ended(self, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        self.signal = -code if code < 0 else None
        self.status = 128 - code if code < 0 else code
        if self._terminal is not None and self._terminal.foreground() == self.pid:
            self._terminal.give_to(os.getpgrp())

    def _was_stopped(self, number: int) -> None:
        """Stop with a child that the terminal stopped, so that the shell sees its job stopped."""
        if self._terminal is None or number not in _USED_TERMINAL | {signal.SIGTSTP}:
            return  # somebody wants it stopped, a debugger perhaps
        self.had_terminal |= number in _USED_TERMINAL
        if number == signal.SIGTSTP:
            stop_job(number)
            self._go_on(self._terminal)
        elif self._terminal.is_ours():
            self._go_on(self._terminal)
        else:
            stop_job(number)  # the shell sends SIGCONT when our job may have the terminal

    def _go_on(self, terminal: Terminal) -> None:
        if self.had_terminal and terminal.is_ours():
            terminal.give_to(self.pid)
        send(-self.pid, signal.SIGCONT)
