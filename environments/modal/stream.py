"""Streams of a process in a Modal sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from modal import exception

from environments.log import logger
from environments.loop import current, done_within, spawn
from environments.modal.service import service
from environments.output import Channel
from environments.shell.sending_stream import SendingStream
from environments.shell.stream import Terminal
from environments.short_commands.service import PATIENCE, Attempts

if TYPE_CHECKING:
    from modal.container_process import ContainerProcess
    from modal.io_streams import StreamReader

PIECE = 4 * 1024 * 1024
"""Bytes of input in one piece; each costs a round trip. The client's limit is 16 MiB."""
QUIET = 0.25
"""Seconds of silence after a process has ended until its streams count as ended: a child of the process may keep them
open for hours."""
END_LIMIT = 5.0
"""Seconds to send the end of input to an abandoned process."""

log = logger(__name__)


class ModalStream(SendingStream):
    """A process in a sandbox.

    Input is numbered by its offset, so the client can send it again after a fault without duplicates. Output is
    numbered too: a new connection continues at the last byte received.

    Args:
        process: The process, started with byte streams.
        resize: Changes the size of its terminal; None without a terminal.
    """

    def __init__(
        self, process: ContainerProcess[bytes], resize: Callable[[Terminal], Awaitable[object]] | None = None
    ) -> None:
        super().__init__()
        self._process = process
        self._resize = resize
        self._received = 0
        self._may_read = asyncio.Event()
        self._may_read.set()

    def _begin(self) -> None:
        self._exit: asyncio.Future[int] = current().loop.create_future()
        self._reading = spawn(self._read_to_end())
        self._reading.add_done_callback(lambda _: self._end())  # also if it is cancelled at its very end

    # Reading.

    async def _read_to_end(self) -> None:
        sources = ((Channel.STDOUT, self._process.stdout), (Channel.STDERR, self._process.stderr))
        reads = {spawn(self._read_one(channel, source)) for channel, source in sources}
        end = spawn(self._await_exit())
        try:
            waiting: set[asyncio.Task[None]] = {end, *reads}
            while not end.done():
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if any(task in reads and task.exception() for task in done):
                    return
            while waiting := {task for task in reads if not task.done()}:
                before = self._received
                await asyncio.wait(waiting, timeout=QUIET)
                if self._received == before and self._may_read.is_set():
                    return
        finally:
            tasks = {end, *reads}
            for task in tasks:
                task.cancel()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, Exception):
                    log.debug("modal: a stream ended: %s", service.reason(outcome))

    async def _await_exit(self) -> None:
        attempts = Attempts(service, "the exit code cannot be had")
        while not self._exit.done():
            began = time.monotonic()
            try:
                self._exit.set_result(await self._process.wait.aio())
            except service.errors as error:
                if time.monotonic() - began > PATIENCE:
                    attempts.reset()  # the service had answered for long
                await attempts.failed(error)

    async def _read_one(self, channel: Channel, source: StreamReader[bytes]) -> None:
        attempts = Attempts(service, "output cannot be read")
        while True:
            try:
                async with contextlib.aclosing(source.__aiter__()) as pieces:
                    async for data in pieces:
                        attempts.reset()
                        await self._may_read.wait()
                        self._received += len(data)
                        if not self.has_ended:
                            self.receiver.data_received(channel, data)
            except service.errors as error:  # the client continues after the last byte received
                await attempts.failed(error)
            else:
                return

    def pause(self) -> None:
        self._may_read.clear()

    def resume(self) -> None:
        self._may_read.set()

    # Writing.

    async def _send(self, data: bytes) -> None:
        for start in range(0, len(data), PIECE):
            await self._write_confirmed(partial(self._process.stdin.write, data[start : start + PIECE]))

    async def _send_end(self) -> None:
        await self._write_confirmed(self._process.stdin.write_eof)

    async def _write_confirmed(self, write: Callable[[], None]) -> None:
        """Write input and wait for its confirmation. Without a confirmation, the stream ends.

        A refusal instead would make the caller send the input again.
        """
        try:
            write()
            # Input that arrived unconfirmed is not duplicated, as its offset is the same.
            await service.retry(self._process.stdin.drain.aio, "input cannot be sent")
        except (exception.ConflictError, ValueError) as error:  # the input is closed
            raise BrokenPipeError(str(error)) from error
        except service.errors as error:
            self._reading.cancel()
            raise BrokenPipeError(f"input was not confirmed: {service.reason(error)}") from error

    def close_write(self) -> None:
        # On a terminal, control-D is the end of file.
        if self._resize:
            self.write(b"\x04")
        else:
            super().close_write()

    async def resize(self, terminal: Terminal) -> None:
        if self._resize:
            await self._resize(terminal)

    # The end.

    async def exit_code(self, timeout: float) -> int | None:
        await asyncio.wait((self._exit, self._reading), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        return self._exit.result() if self._exit.done() else None

    async def close(self) -> None:
        # The process's input ends, and the rest of its output is not read.
        if not self._is_closed:
            self._is_closed = True
            if self._sending:
                self._sending.cancel()  # without an end of input, which would first send the rest
            elif not self.has_ended:
                spawn(self._end_input())
            self._reading.cancel()
        await done_within(self._reading, END_LIMIT)
        self._end()

    async def _end_input(self) -> None:
        with contextlib.suppress(TimeoutError, BrokenPipeError):
            async with asyncio.timeout(END_LIMIT):
                await self._send_end()
