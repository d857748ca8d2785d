"""A command in the background that is awaited."""

from __future__ import annotations

import asyncio

from environments import Process
from environments.cancellation import ended_in_scope
from environments.loop import Call, current, in_worker, work_of
from environments.process import GRACE
from hermes_env.aio.calls import as_coroutine, awaited


class AsyncProcess:
    """A command that runs in the background, see `environments.Process`. `AsyncEnvironment.start` makes it.

    Args:
        process: The handle beneath.
    """

    def __init__(self, process: Process) -> None:
        self.sync = process
        """The handle beneath, for what is not awaited."""

    @property
    def pid(self) -> int:
        """The process id, in the target, of the shell that runs the command."""
        return self.sync.pid

    @property
    def running(self) -> bool:
        """Whether the command has not ended."""
        return self.sync.running

    read = as_coroutine(Process.read)
    expect = as_coroutine(Process.expect)
    close_stdin = as_coroutine(Process.close_stdin)
    resize = as_coroutine(Process.resize)
    wait = as_coroutine(Process.wait)
    kill = as_coroutine(Process.kill, to_end=True)

    async def poll(self) -> int | None:
        """Return the exit code, or None while the command runs, see `Process.poll`."""
        return self.sync.poll()

    async def write(self, data: str | bytes) -> None:
        """Send text or bytes to the command's standard input, or type them on its terminal.

        Cancelled, the command has one second to read its input. Then it is ended: how much of its input has arrived
        would not be known.

        Raises:
            BrokenPipeError: The command has ended or closed its input.
        """
        process, write, is_over = self.sync, work_of(self.sync.write), False

        async def work(call: Call[None]) -> None:
            nonlocal is_over
            try:
                await (write(call, data) if write else in_worker(process.write, data))
            finally:
                is_over = True

        async def end_reader() -> None:
            await asyncio.sleep(GRACE)
            if not is_over:
                await in_worker(process.kill)

        def begin_ending() -> None:
            current().soon(lambda: current().spawn(end_reader()))

        with ended_in_scope(begin_ending):
            await awaited(work, cancel=begin_ending)
