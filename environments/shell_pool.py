"""Warm shells for commands that run beside the session."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from environments.base import TerminalError
from environments.shell import Shell

IDLE_LIMIT = 4
"""How many idle shells are kept. More are opened when more commands run at once, and closed behind them."""


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
        self._lent: set[Shell] = set()
        self._slots = threading.Semaphore(limit) if limit else None
        self._closed = False

    @contextlib.contextmanager
    def lend(self, urgent: bool = False) -> Iterator[Shell]:
        """Lend a shell for the block; one that is no longer alive at its end is closed.

        Args:
            urgent: Whether to pass by the limit: ending a command must not wait for that command.
        """
        with self._slots if self._slots and not urgent else contextlib.nullcontext():
            shell = self._take()
            try:
                yield shell
            finally:
                self._give_back(shell)

    def take(self) -> Shell:
        """Give a shell away for good."""
        shell = self._take()
        with self._lock:
            self._lent.discard(shell)
        return shell

    def _take(self) -> Shell:
        with self._lock:
            if self._closed:
                raise TerminalError("the environment was cleaned up")
            shell = self._idle.pop() if self._idle else None
        shell = shell or self._open_shell()
        with self._lock:
            self._lent.add(shell)
        return shell

    def _give_back(self, shell: Shell) -> None:
        with self._lock:
            self._lent.discard(shell)
            keep = shell.alive and not self._closed and len(self._idle) < IDLE_LIMIT
            if keep:
                self._idle.append(shell)
        if not keep:
            shell.close()

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
