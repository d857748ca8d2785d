"""The streams of a process in a Modal sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING

from modal import exception

from environments.log import logger
from environments.modal.service import PASSING, PATIENCE, SERVICE_ERRORS, Backoff, reason
from environments.shell.stream import Chunk, Terminal
from environments.sink import Channel

if TYPE_CHECKING:
    from modal.container_process import ContainerProcess
    from modal.io_streams import StreamReader

    from environments.modal.loop import LoopThread

PIECE = 4 * 1024 * 1024
"""Bytes of input sent at a time, of which each piece costs a round trip. The client takes at most 16 MiB."""
UNREAD_LIMIT = 4 * 1024 * 1024
"""Bytes of output that wait here to be read, before no more are fetched."""
QUIET = 0.25
"""Seconds of silence after a process has ended, after which its streams are taken as ended too: a child that it has
left behind may hold them open for hours."""

log = logger(__name__)


class ModalStream:
    """A process in a sandbox, which tasks of an event loop read and wait for.

    What is written is numbered by its place in the whole input, so that the client can send it again after a fault
    without its arriving twice. Output is numbered too, and fetched on from where a broken connection left off.

    Args:
        loop: Where the tasks run.
        process: The process, started with bytes for streams.
        resize: Changes the size of its terminal, if it has one.
    """

    def __init__(
        self,
        loop: LoopThread,
        process: ContainerProcess[bytes],
        resize: Callable[[Terminal], None] | None = None,
    ) -> None:
        self._loop = loop
        self._process = process
        self._resize = resize
        self._arrived = threading.Condition()
        self._chunks: deque[Chunk] = deque()
        self._unread = self._received = 0
        self._room = asyncio.Event()
        self._room.set()
        self._ended = self._closed = self._broken = False
        self._write_lock = threading.Lock()
        self._writing: Future[None] | None = None
        self._exit: Future[int | None] = Future()
        self._pumping = loop.submit(self._read_to_end())
        self._pumping.add_done_callback(self._finish)

    def _finish(self, _: Future[None]) -> None:
        with self._arrived:
            self._ended = True
            if not self._exit.done():
                self._exit.set_result(None)
            self._arrived.notify_all()

    # In the loop.

    async def _read_to_end(self) -> None:
        process = self._process
        end = asyncio.create_task(self._await_exit())
        sources = ((Channel.STDOUT, process.stdout), (Channel.STDERR, process.stderr))
        reads = {asyncio.create_task(self._read_one(channel, source)) for channel, source in sources}
        try:
            waiting: set[asyncio.Task[None]] = {end, *reads}
            while not end.done():
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if any(task in reads and task.exception() for task in done):
                    return
            while waiting := {task for task in reads if not task.done()}:
                before = self._received
                await asyncio.wait(waiting, timeout=QUIET)
                if self._received == before and self._room.is_set():
                    return
        finally:
            tasks = {end, *reads}
            for task in tasks:
                task.cancel()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, Exception):
                    log.debug("modal: a stream ended: %s", reason(outcome))

    async def _await_exit(self) -> None:
        backoff = Backoff()
        while True:
            began = time.monotonic()
            try:
                code = await self._process.wait.aio()
            except PASSING as error:
                if time.monotonic() - began > PATIENCE:
                    backoff.reset()  # the service was there for long in between
                await asyncio.sleep(backoff.next_pause(error, "the exit code cannot be had"))
                continue
            with self._arrived:
                if not self._exit.done():
                    self._exit.set_result(code)
            return

    async def _read_one(self, channel: Channel, source: StreamReader[bytes]) -> None:
        backoff = Backoff()
        while True:
            try:
                async with contextlib.aclosing(source.__aiter__()) as pieces:
                    async for data in pieces:
                        backoff.reset()
                        self._take(channel, data)
                        await self._room.wait()
            except PASSING as error:  # the client goes on behind the last byte that it has got
                await asyncio.sleep(backoff.next_pause(error, "output cannot be read"))
            else:
                return

    def _take(self, channel: Channel, data: bytes) -> None:
        with self._arrived:
            self._chunks.append(Chunk(channel, data))
            self._unread += len(data)
            self._received += len(data)
            if self._unread >= UNREAD_LIMIT:
                self._room.clear()
            self._arrived.notify_all()

    async def _send(self, data: bytes, *, eof: bool = False) -> None:
        stdin = self._process.stdin
        for start in range(0, len(data), PIECE):
            stdin.write(data[start : start + PIECE])
            await self._drain()
        if eof:
            stdin.write_eof()
            await self._drain()

    async def _drain(self) -> None:
        backoff = Backoff()
        while True:
            try:
                await self._process.stdin.drain.aio()
            except PASSING as error:  # what arrived all the same is not taken twice, as it has the same place
                await asyncio.sleep(backoff.next_pause(error, "input cannot be sent"))
            else:
                return

    async def _end_input(self) -> None:
        with contextlib.suppress(*SERVICE_ERRORS, ValueError):
            await self._send(b"", eof=True)

    # In the caller's thread.

    def read(self, timeout: float | None) -> Chunk | None:
        """Wait for bytes, see `Stream.read`."""
        with self._arrived:
            self._arrived.wait_for(lambda: self._chunks or self._ended or self._closed, timeout)
            if self._closed:
                return Chunk(Channel.STDOUT, b"")
            if not self._chunks:
                return Chunk(Channel.STDOUT, b"") if self._ended or self._broken else None
            chunk = self._chunks.popleft()
            self._unread -= len(chunk.data)
            has_room = self._unread < UNREAD_LIMIT
        if has_room and not self._room.is_set():
            self._loop.wake(self._room)
        return chunk

    def write(self, data: bytes) -> None:
        """Send all of `data`, see `Stream.write`.

        When it cannot be known whether the process got it, that is no error here: the stream then ends, as the
        caller would send again what was refused.
        """
        self._write(data)

    def _write(self, data: bytes, *, eof: bool = False) -> None:
        with self._write_lock:
            if self._closed or self._ended or self._broken:
                raise BrokenPipeError(errno.EPIPE, "the process in the sandbox does not read any more")
            self._writing = self._loop.submit(self._send(data, eof=eof))
            try:
                self._writing.result()
            except (exception.ConflictError, ValueError) as error:  # its input is closed
                raise BrokenPipeError(errno.EPIPE, f"the process in the sandbox does not read: {error}") from error
            except (*SERVICE_ERRORS, CancelledError) as error:
                log.debug("modal: input was not confirmed: %s", reason(error))
                self._break()

    def _break(self) -> None:
        self._broken = True
        self._pumping.cancel()

    def close_write(self) -> None:
        """Let the process see end of file: end its input, or type control-D on a terminal."""
        if self._resize:
            self.write(b"\x04")
            return
        with contextlib.suppress(BrokenPipeError):
            self._write(b"", eof=True)

    def resize(self, terminal: Terminal) -> None:
        """Change the size of the terminal, if there is one."""
        if self._resize:
            self._resize(terminal)

    def exit_code(self, timeout: float) -> int | None:
        """Return how the process ended, see `Stream.exit_code`."""
        try:
            return self._exit.result(timeout)
        except (FutureTimeoutError, CancelledError):
            return None

    def close(self) -> None:
        """Give the process up: its input ends, and nothing more is fetched of its output."""
        with self._arrived:
            if self._closed:
                return
            self._closed = True
            self._arrived.notify_all()
        writing = self._writing
        if writing and not writing.done():
            writing.cancel()  # and no end of input behind it, with which the rest would be sent
        elif not self._ended:
            with contextlib.suppress(BrokenPipeError):
                self._loop.submit(self._end_input())
        self._pumping.cancel()
