"""Whose turn it is in a session, and how what has it is ended."""

from __future__ import annotations

import threading
from collections.abc import Callable

from environments.call import Call
from environments.errors import StartStoppedError, TerminalError
from environments.result import CommandResult
from environments.shell.running import RunningCommand
from environments.starting import is_unwanted

CANCEL_POLL = 0.1
"""Seconds between looks at whether a call was cancelled while it waits for its turn."""


class Turn:
    """Lets one command after another through.

    Args:
        cwd: Returns the session's directory, as far as it is known.
    """

    def __init__(self, cwd: Callable[[], str]) -> None:
        self.lock = threading.RLock()
        self.is_over = False
        """Whether the session was closed: nobody has a turn any more."""
        self.end_asked = False
        """Whether the command that has its turn is to end."""
        self._cwd = cwd
        self._granted = False
        self._running: RunningCommand | None = None

    @property
    def is_taken(self) -> bool:
        """Whether a command has its turn."""
        return self._granted

    @property
    def is_mine(self) -> bool:
        """Whether it is the current thread's."""
        # No flag of ours would be right whatever is raised.
        return bool(self.lock._is_owned())  # type: ignore[attr-defined]

    def check_outside(self, what: str) -> None:
        """Raise TerminalError if the current thread has its turn already, and so would wait for itself."""
        if self.is_mine:
            raise TerminalError(
                f"{what} was called while this thread runs a command in the same session, such as from on_output; use "
                "execute_oneshot, which runs beside it"
            )

    def take(self, call: Call, run: Callable[[], CommandResult]) -> CommandResult:
        """Wait for a command's turn, and run it.

        Args:
            call: The command.
            run: Runs it.
        """
        self.check_outside("execute")
        if not call.can_be_cancelled:
            with self.lock:  # which control-C cannot get in between of
                return self._granting(run)
        while not self.lock.acquire(timeout=CANCEL_POLL):
            if call.is_cancelled:
                return CommandResult.never_ran(self._cwd())
        try:
            return CommandResult.never_ran(self._cwd()) if call.is_cancelled else self._granting(run)
        finally:
            self.lock.release()

    def _granting(self, run: Callable[[], CommandResult]) -> CommandResult:
        self._granted, self.end_asked = True, False
        try:
            if self.is_over:
                raise TerminalError("the session was closed while the command waited for its turn; it was not run")
            return run()
        except StartStoppedError:
            if not self.end_asked and not is_unwanted():
                raise
            return CommandResult.never_ran(self._cwd())
        finally:
            self._granted = False

    def announce(self, running: RunningCommand | None) -> None:
        """Take the means to end the command that has its turn; None when it has ended."""
        self._running = running
        if running and self.end_asked:
            running.interrupt()

    def interrupt(self) -> None:
        """End the command whose turn it is. One that is still on its way to the target is ended when it has begun."""
        self.end_asked = self._granted
        if running := self._running:
            running.interrupt()
