"""Warm shells for commands that run beside the session."""

from __future__ import annotations

import threading
import time

from environments.cancellation import current_scope, current_start_limit
from environments.errors import CallCancelledError, TerminalError
from environments.shell.parked import ParkedShells
from environments.shell.request import Request
from environments.shell.shell import Shell
from environments.shell.target_shells import TargetShells
from environments.starting import is_unwanted

IDLE_LIMIT = 4
"""How many idle shells are kept. More are opened when more commands run at once, and closed behind them."""
CANCEL_POLL = 0.1
"""Seconds between looks at whether a call was cancelled while it waits for one."""
SLOT_TIMEOUT = 300.0
"""Seconds to wait for one of a limited number of shells."""


class Slots(threading.BoundedSemaphore):
    """How many shells may be lent at once, where the target sets a limit.

    Args:
        limit: How many.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._limit = limit

    def wait(self) -> None:
        """Take one, and wait until it is free.

        Raises:
            CallCancelledError: Nobody wants it any more.
            TerminalError: None came free for too long.
        """
        deadline = time.monotonic() + SLOT_TIMEOUT
        while not self.acquire(timeout=CANCEL_POLL if current_scope() or current_start_limit() else SLOT_TIMEOUT):
            if is_unwanted():
                raise CallCancelledError("the call was cancelled while it waited for another command's end")
            if time.monotonic() >= deadline:
                raise TerminalError(
                    f"the {self._limit} commands that the target allows at once were all running for "
                    f"{SLOT_TIMEOUT:.0f} s; end one of them, or a background process"
                )


class ShellPool:
    """Lends shells, opening one when none is idle. One whose command has left something is not lent again.

    Args:
        shells: Opens and ends them.
        slots: How many may be in use at once, where the target sets a limit; a further borrower then waits.
    """

    def __init__(self, shells: TargetShells, slots: Slots | None = None) -> None:
        self._shells = shells
        self._parked = ParkedShells(shells)
        self._changed = threading.Condition()
        self._idle: list[Shell] = []
        self._slots = slots

    def sent(self, request: Request) -> tuple[Shell, str]:
        """Send a request to a shell, which is to be given back; returns it and the request's marker.

        Raises:
            TerminalError: The environment was cleaned up, or all shells are in use for too long.
            EnvironmentStartError: A new shell could not be opened.
            EnvironmentLostError: No shell took the request, so it was not run.
        """
        for _ in range(IDLE_LIMIT + 1):
            shell = self._take()
            try:
                return shell, shell.send(request)
            except BrokenPipeError:  # it died while it was idle, and got nothing of the request
                self.give_back(shell)
            except BaseException:
                self.give_back(shell)
                raise
        raise self._shells.lost("no shell of it could be reached")

    def _take(self) -> Shell:
        if self._slots:
            self._slots.wait()
        try:
            return self._idle_shell() or self._open()
        except BaseException:
            if self._slots:
                self._slots.release()
            raise

    def _open(self) -> Shell:
        return self._shells.open(self._shells.base)

    def _idle_shell(self) -> Shell | None:
        while True:
            with self._changed:
                if not self._idle:
                    return None
                shell = self._idle.pop()
            if self._shells.is_current(shell):
                return shell
            self._shells.end(shell)

    def give_back(self, shell: Shell) -> None:
        """Take a shell back. One that is not fit, or one too many, is ended."""
        self.keep(shell)
        if self._slots:
            self._slots.release()

    def keep(self, shell: Shell) -> None:
        """Keep a shell for whoever needs one, if it is fit."""
        current = self._shells.is_current(shell)
        parked = current and shell.has_leftovers
        with self._changed:
            keep = current and not parked and len(self._idle) < IDLE_LIMIT
            if keep:
                self._idle.append(shell)
            self._changed.notify()
        if parked:
            self._parked.park(shell)
        elif not keep:
            self._shells.end(shell)

    def close(self) -> None:
        """Wait for what reads from shells with leftovers, once all shells are closed."""
        self._parked.close()
