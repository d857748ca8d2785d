"""One command on a terminal of the target's: what is typed goes there, and what it shows comes here."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from enum import Enum, auto
from queue import SimpleQueue

from environments.base import BaseEnvironment
from environments.cancellation import CancelScope
from environments.errors import CallCancelledError
from environments.process import Process
from environments.result import INTERRUPT_EXIT_CODE
from hermes_env.cli.interactive.keys import Keys
from hermes_env.cli.interactive.raw_terminal import RawTerminal, size_of
from hermes_env.cli.interactive.screen import Screen
from hermes_env.cli.standard_input import InputPump
from hermes_env.cli.streams import LiveOutput

_LAST_WORDS = 1000
"""Milliseconds in which a terminal has to have room for what puts it right."""


class _Event(Enum):
    RESIZED = auto()
    CONTINUED = auto()
    OVER = auto()


class InteractiveSession:
    """Runs one command on a terminal, from this one.

    Args:
        terminal: The descriptor of this one.
    """

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._scope = CancelScope()
        # A signal's handler may put something into it while the thread that it came upon does the same.
        self._events: SimpleQueue[_Event] = SimpleQueue()

    def interrupt(self) -> None:
        """End the command, or the start of its target, from any thread. It need not have ended when this returns."""
        self._scope.cancel()
        self._events.put(_Event.OVER)

    @property
    def interrupted(self) -> bool:
        """Whether it was to be ended."""
        return self._scope.cancelled

    @contextmanager
    def heeding_signals(self) -> Iterator[None]:
        """Pass on in the block that the window has another size. To be entered by the main thread."""
        events = {signal.SIGWINCH: _Event.RESIZED, signal.SIGCONT: _Event.CONTINUED}
        before = {
            number: signal.signal(number, lambda *_, event=event: self._events.put(event))
            for number, event in events.items()
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def run(self, environment: BaseEnvironment, command: str, output: LiveOutput) -> int:
        """Run a command until it ends, or is ended, and return its exit code; 130 if it was ended.

        Args:
            environment: Where it runs.
            command: Shell text.
            output: Shows what comes.

        Raises what `BaseEnvironment.start` raises, and EnvironmentLostError. This terminal is then as it was before.
        """
        is_raw = threading.Event()
        screen, line_end = Screen(output, is_raw), b""
        try:
            process = self._started(environment, command, screen)
            with RawTerminal(self._terminal) as raw:
                is_raw.set()
                line_end = b"\n"  # it may break off in the middle of a line
                code = self._attend(process, raw, screen)
            if code is None:
                return INTERRUPT_EXIT_CODE
            line_end = b""
        except CallCancelledError:
            screen.freeze()
            return INTERRUPT_EXIT_CODE
        finally:
            is_raw.set()  # what could not be shown waits no longer
            _show_last(screen.undoing() + line_end)
        return code

    def _started(self, environment: BaseEnvironment, command: str, screen: Screen) -> Process:
        size = size_of(self._terminal)
        with self._scope.active():
            process = environment.start(
                command, pty=True, rows=size.rows, columns=size.columns, env=_variables(), sink=screen
            )
        process.add_done_callback(lambda _: self._events.put(_Event.OVER))
        return process

    def _attend(self, process: Process, raw: RawTerminal, screen: Screen) -> int | None:
        """Return the exit code of a process when it has ended, or None when it was ended by us."""
        with ExitStack() as stack:
            stack.callback(InputPump(self._terminal, Keys(process, self.interrupt)).stop)
            while (event := self._events.get()) is not _Event.OVER:
                if event is _Event.CONTINUED:
                    raw.enforce()
                size = size_of(self._terminal)  # which may have changed, too, while we were stopped
                process.resize(size.rows, size.columns)
            if not self.interrupted and (code := process.poll()) is not None:
                return code
            screen.freeze()
            process.kill()
        return None


def _variables() -> Mapping[str, str]:
    """Return what programs there have to know of this terminal."""
    kind = os.environ.get("TERM", "dumb")
    return {} if kind == "dumb" else {"TERM": kind}


def _show_last(data: bytes) -> None:
    """Show what puts the terminal right, unless that takes nothing any more."""
    if not data or sys.stdout is None:
        return
    room = select.poll()
    room.register(sys.stdout.fileno(), select.POLLOUT)
    if any(state == select.POLLOUT for _, state in room.poll(_LAST_WORDS)):
        with suppress(OSError):
            os.write(sys.stdout.fileno(), data)
