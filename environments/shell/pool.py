"""Warm shells for commands that run beside the session."""

from __future__ import annotations

import threading
from collections.abc import Callable

from environments.errors import TerminalError
from environments.shell.shell import Shell

IDLE_LIMIT = 4
"""How many idle shells are kept. More are opened when more commands run at once, and closed behind them."""
SLOT_TIMEOUT = 300.0
"""Seconds to wait for one of a limited number of shells."""


class ShellPool:
    """Lends shells, opening one when none is idle.

    Args:
        open_shell: Opens a new one.
        limit: How many may be open at once, where the target sets a limit; a further borrower then waits.
    """

    def __init__(self, open_shell: Callable[[], Shell], limit: int | None = None) -> None:
        self._open_shell = open_shell
        self._lock = threading.Lock()
        self._idle: list[Shell] = []
        self._lent: dict[Shell, bool] = {}
        self._limit = limit
        self._slots = threading.Semaphore(limit) if limit else None
        self._closed = False

    def take(self, urgent: bool = False) -> Shell:
        """Take a shell, which is to be given back.

        Args:
            urgent: Whether to pass by the limit: ending a command must not wait for that command.

        Raises:
            TerminalError: The pool is closed, or all shells are in use for too long.
            EnvironmentStartError: A new shell could not be opened.
        """
        holds_slot = self._slots is not None and not urgent
        if holds_slot:
            self._wait_for_slot()
        try:
            with self._lock:
                if self._closed:
                    raise TerminalError("the environment was cleaned up; create a new one")
                shell = self._idle.pop() if self._idle else None
            shell = shell or self._open_shell()
        except BaseException:
            if self._slots and holds_slot:
                self._slots.release()
            raise
        with self._lock:
            self._lent[shell] = holds_slot
        return shell

    def _wait_for_slot(self) -> None:
        if self._slots and not self._slots.acquire(timeout=SLOT_TIMEOUT):
            raise TerminalError(
                f"the {self._limit} commands that the target allows at once were all running for {SLOT_TIMEOUT:.0f} s; "
                "end one of them, or a background process"
            )

    def give_back(self, shell: Shell) -> None:
        """Take a shell back. One that is no longer alive, or one too many, is closed."""
        with self._lock:
            holds_slot = self._lent.pop(shell)
            keep = shell.alive and not self._closed and len(self._idle) < IDLE_LIMIT
            if keep:
                self._idle.append(shell)
        if not keep:
            shell.close()
        if self._slots and holds_slot:
            self._slots.release()

    def close_idle(self) -> None:
        """Close the shells that nobody has borrowed."""
        with self._lock:
            idle, self._idle = self._idle, []
        for shell in idle:
            shell.close()

    def close(self) -> None:
        """Close every shell, also those that are lent."""
        with self._lock:
            self._closed = True
            lent = list(self._lent)
        self.close_idle()
        for shell in lent:
            shell.close()
