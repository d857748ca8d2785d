"""Shells for commands of our own, in which no user's has ever run."""

from __future__ import annotations

import threading
import time
from functools import partial

from environments.errors import EnvironmentStartError, TerminalError
from environments.result import CommandResult
from environments.shell.output import CommandOutput
from environments.shell.pool import ShellPool
from environments.shell.request import Request, Where
from environments.shell.shell import Shell
from environments.shell.target_shells import TargetShells

CONTROL_TIMEOUT = 10.0
"""Seconds a command of our own may take: what does not answer by then is lost."""
ALONE_TIMEOUT = 30.0
"""The same for what starts no process. Among the processes of a bomb it gets its turn late; one that was given up would
stop them all when it does, and with them the shell that is being opened in its place."""
RESERVE_DELAY = 0.02
"""Seconds until a shell is opened for what has not come up yet."""
ATTEMPTS = 2
"""How many shells are tried for what starts no process."""
CONTROL_OUTPUT = 64_000_000
"""Bytes kept of what a command of our own prints."""


class ControlShells(ShellPool):
    """Runs commands of our own, without the limits that hold for others'.

    One shell is opened along with the first of the user's, so that a command can also be ended when no descriptor, no
    process and no stream is to be had any more.

    Args:
        shells: Opens them.
    """

    def __init__(self, shells: TargetShells) -> None:
        super().__init__(shells)
        self._reserving: threading.Thread | None = None
        self._wanted = threading.Event()
        self._is_given_up = False

    @property
    def idle(self) -> list[Shell]:
        """Those that wait for something to do."""
        self.await_reserve()
        with self._changed:
            return list(self._idle)

    def reserve(self) -> None:
        """Have one opened soon, without waiting for it, and without delaying the command that was just sent."""
        if self._reserving is not None:
            return
        with self._changed:  # many first commands may come at once, behind a start that all of them waited for
            if self._reserving is None:
                thread = threading.Thread(target=self._reserve, name="hermes-reserve", daemon=True)
                thread.start()
                self._reserving = thread

    def _reserve(self) -> None:
        self._wanted.wait(RESERVE_DELAY)
        if self._is_given_up:
            return
        # What ends a command is imported before it is needed, too: then there may be no descriptor left to read it by.
        from environments.shell import crowd, process_tree  # noqa: F401

        try:
            shell = self._shells.open()
        except TerminalError as error:
            self._shells.postpone(error)
            return
        self.keep(shell)

    def run(self, text: str, timeout: float = CONTROL_TIMEOUT) -> CommandResult:
        """Run shell text, and wait for it `timeout` seconds.

        Raises:
            EnvironmentLostError: The target did not answer in time.
        """
        shell, _ = self.sent(Request(text, Where.SUBSHELL))
        try:
            output = CommandOutput(CONTROL_OUTPUT, separate=False)
            ended = shell.receive(output, time.monotonic() + timeout)
            if ended.exit_code is None:
                silent = None if shell.stream_ended else f"it did not answer for {timeout:.0f} s"
                raise self._shells.lost(self._shells.why_lost() or silent, self._shells.generation_of(shell))
            return CommandResult(output.stdout.text().text, ended.exit_code)
        finally:
            self.give_back(shell)

    def run_alone(self, text: str) -> CommandResult:
        """Run shell text of builtins in the shell itself, so that no process is started; it may be run twice.

        Raises:
            EnvironmentLostError: The target did not answer in time.
        """
        for _ in range(ATTEMPTS):
            shell = self._take()
            try:
                output = CommandOutput(CONTROL_OUTPUT, separate=False)
                ended = shell.ask(partial(shell.dialect.alone, text), output, ALONE_TIMEOUT)
                return CommandResult(output.stdout.text().text, ended.exit_code or 0)
            except BrokenPipeError:  # it had died while it was idle, or does not answer
                continue
            finally:
                self.give_back(shell)
        raise self._shells.lost(self._shells.why_lost() or "the shells that would end its processes do not answer")

    def _take(self) -> Shell:
        self.await_reserve()
        return super()._take()

    def _open(self) -> Shell:
        try:
            return self._shells.open(for_control=True)
        except EnvironmentStartError:
            deadline = time.monotonic() + CONTROL_TIMEOUT
            while (left := deadline - time.monotonic()) > 0:
                if shell := self._idle_shell():
                    return shell
                with self._changed:
                    self._changed.wait_for(lambda: self._idle, left)
            raise

    def await_reserve(self) -> None:
        """Wait until the one that is being opened is there, if one is."""
        if (thread := self._reserving) and thread is not threading.current_thread():
            self._wanted.set()
            thread.join()

    def give_up_reserve(self) -> None:
        """Have none opened that has not begun to be, as everything is about to be ended."""
        self._is_given_up = True

    def close(self) -> None:
        """Wait for what is being opened, see also `ShellPool.close`."""
        self.await_reserve()
        super().close()
