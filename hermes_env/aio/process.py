"""A command in the background that is awaited."""

from __future__ import annotations

import threading

import anyio

from environments import Process
from environments.arguments import check_patience
from environments.cancellation import ended_in_scope
from environments.process import GRACE
from hermes_env.aio.calls import awaited, ended
from hermes_env.aio.home import HomeLoop
from hermes_env.aio.pools import Work, limiter_for
from hermes_env.aio.threads import in_thread


class AsyncProcess:
    """A command that runs in the background, see `environments.Process`. `AsyncEnvironment.start` makes it.

    Args:
        process: The handle beneath.
    """

    def __init__(self, process: Process) -> None:
        self.sync = process
        """The handle beneath, for what is not awaited."""
        self._waiting: set[_EndAwaited] = set()
        self._lock = threading.Lock()
        self._is_told = False

    @property
    def pid(self) -> int:
        """The process id, in the target, of the shell that runs the command."""
        return self.sync.pid

    @property
    def running(self) -> bool:
        """Whether the command has not ended."""
        return self.sync.running

    read = awaited(Process.read, Work.CONTROL)
    """Return what the command has printed since the last `read`, at once, see `Process.read`."""
    expect = awaited(Process.expect, Work.WAIT)
    """Wait until the command has printed something, see `Process.expect`. Cancelled, it has read nothing."""
    close_stdin = awaited(Process.close_stdin, Work.CONTROL)
    """Let the command see end of file, see `Process.close_stdin`."""
    poll = awaited(Process.poll, Work.CONTROL)
    """Return the exit code, or None while the command runs, see `Process.poll`."""
    resize = awaited(Process.resize, Work.CONTROL)
    """Change the size of the command's terminal, see `Process.resize`."""
    kill = ended(Process.kill)
    """End the command and all it started, see `Process.kill`, also in a task that is cancelled."""

    async def write(self, data: str | bytes) -> None:
        """Send text or bytes to the command's standard input, or type them on its terminal.

        Cancelled while the command does not read, it ends the command: how much of its input has come nobody could
        know. It has one second to take it.

        Raises:
            BrokenPipeError: The command has ended or closed its input.
        """
        over = threading.Event()

        def end_reader() -> None:
            if not over.wait(GRACE):
                self.sync.kill()

        def begin_ending() -> None:
            threading.Thread(target=end_reader, name="hermes-end-write", daemon=True).start()

        def write() -> None:
            try:
                with ended_in_scope(begin_ending):
                    self.sync.write(data)
            finally:
                over.set()

        await in_thread(write, limiter=limiter_for(Work.WAIT))

    async def wait(self, timeout: float | None = None) -> int | None:
        """Wait for the command's end, without a thread, and return its exit code.

        Args:
            timeout: Seconds to wait at most; None is as long as the command runs.

        Returns:
            The exit code; None when the time did not bring it.

        Raises:
            EnvironmentLostError: The target went away before the command's end.
        """
        if timeout is not None:
            check_patience(timeout)
        waiting = _EndAwaited()
        with self._lock:
            self._waiting.add(waiting)
            is_told, self._is_told = self._is_told, True
        try:
            if not is_told:
                self.sync.add_done_callback(self._tell)
            with anyio.move_on_after(timeout):
                while self.sync.running:
                    await waiting.event.wait()
        finally:
            with self._lock:
                self._waiting.discard(waiting)
        return await self.poll()

    def _tell(self, exit_code: int | None) -> None:
        with self._lock:
            waiting = list(self._waiting)
        for each in waiting:
            each.home.soon(each.event.set)


class _EndAwaited:
    """A task that waits for a command's end."""

    def __init__(self) -> None:
        self.home = HomeLoop()
        self.event = anyio.Event()
