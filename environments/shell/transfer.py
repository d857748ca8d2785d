"""File transfer between commands in the target and worker threads with local files."""

from __future__ import annotations

import _thread
import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from environments.cancellation import check_scope
from environments.local_files import PIECE
from environments.loop import OutputQueue, current, in_worker, spawn
from environments.options import CheckedCommand
from environments.output import BoundedCapture, Channel, Sink
from environments.result import CommandResult
from environments.shell.dialect.files import FUNCTIONS
from environments.shell.lifecycle import weak_proxy

if TYPE_CHECKING:
    from environments.progress import Counter
    from environments.shell.environment import PersistentShellEnvironment
    from environments.shell.oneshot import Write
    from environments.shell.stream import Stream
    from environments.shell.users import TargetUser

T = TypeVar("T")
TIME_LIMIT = 60.0
"""Seconds for a command on a small file."""
BATCH = 256 * 1024
"""Bytes that wake a reading thread."""
BATCH_DELAY = 0.002
"""Seconds until fewer bytes wake the thread."""
LONGEST_REASON = 4096
"""Bytes of a program's output quoted in an error."""


class Runner:
    """Runs internal commands on the target's files, each as a one-shot. Used on the loop.

    Args:
        env: The environment.
        user: The user; None is the target's default user.
    """

    def __init__(self, env: PersistentShellEnvironment, user: str | None = None) -> None:
        self._env = weak_proxy(env)
        self._user = user

    async def ready(self) -> TargetUser | None:
        """Start the target unless it is up, and return the user."""
        self._env.check_process()
        user = await self._env.internal.ready(self._user)
        self._env.command_sent()
        return user

    async def run(self, command: CheckedCommand) -> CommandResult:
        """Run a command and return its result."""
        user = await self.ready()
        outcome = await self._env.oneshots.execute(command._replace(is_internal=True), user)
        return outcome if isinstance(outcome, CommandResult) else outcome.result(command.binary)

    async def run_into(self, command: CheckedCommand, sink_on: Callable[[Stream], Sink]) -> int:
        """Run a command without limits, see `OneshotRunner.run_into`."""
        await self.ready()
        return await self._env.oneshots.run_into(command._replace(is_internal=True), sink_on)

    async def run_fed(
        self, command: CheckedCommand, sink: Sink, feed: Callable[[Write], Awaitable[object]], size: int | None
    ) -> int:
        """Run a command with an input, see `OneshotRunner.run_fed`."""
        user = await self.ready()
        return await self._env.oneshots.run_fed(command._replace(is_internal=True), user, sink, feed, size)


def call_at(
    path: str, command: str, functions: tuple[str, ...] = (FUNCTIONS,), *, separate: bool = False
) -> CheckedCommand:
    """Return a command on a path. The session's directory matters only for a relative path.

    Args:
        path: The path.
        command: Shell text.
        functions: Its function definitions, see `ShellRequest`.
        separate: True to keep standard error apart.
    """
    cwd = "/" if path.startswith(("/", "~")) else None
    return CheckedCommand(command, cwd, TIME_LIMIT, separate=separate, functions=functions)


async def run_producer(produce: Callable[[Callable[[bytes], None]], T], write: Write) -> T:
    """Run a producing function on a worker thread, and return its result.

    Args:
        produce: Called with a function that sends a piece by `write` and raises its errors.
        write: Sends a piece.
    """
    loop = current().loop

    def send(data: bytes) -> None:
        check_scope()
        asyncio.run_coroutine_threadsafe(write(data), loop).result()

    return await in_worker(produce, send)


class OutputHead:
    """A sink that keeps the beginning of a command's output."""

    def __init__(self) -> None:
        self._said = BoundedCapture(LONGEST_REASON)

    def add(self, _: Channel, data: bytes) -> None:
        """Add the next bytes."""
        self._said.add(data)

    @property
    def text(self) -> str:
        """The kept text."""
        return self._said.text().text


class CollectedOutput(OutputHead):
    """A sink that keeps all of standard output, and the beginning of standard error."""

    def __init__(self) -> None:
        super().__init__()
        self.data = bytearray()
        """The standard output."""

    def on(self, _: Stream) -> CollectedOutput:
        """Return the sink for a stream's output."""
        return self

    def add(self, channel: Channel, data: bytes) -> None:
        if channel is Channel.STDOUT:
            self.data += data
        else:
            super().add(channel, data)


class _NoBackPressure:
    """A source without back-pressure of its own, see `Pausable`."""

    def pause(self) -> None:
        """Do nothing."""

    def resume(self) -> None:
        """Do nothing."""


_NO_BACK_PRESSURE = _NoBackPressure()


class ReadableOutput(OutputHead):
    """The output of a command: a sink on the loop, and a file for a reading worker thread.

    Unread bytes pause the command (back-pressure). Standard error is kept apart. The thread is woken for many bytes at
    a time: with both threads busy, the interpreter lock would switch back and forth.
    """

    def __init__(self) -> None:
        super().__init__()
        self._bell = _thread.allocate_lock()
        self._pieces = OutputQueue(self._ring_soon)
        self._unannounced = 0
        self._due: asyncio.TimerHandle | None = None
        self._rest, self._begin = b"", 0
        self._has_ended = False
        self.code = -1
        """The exit code, once all output was read."""
        self.on_read: Callable[[int], object] = lambda _: None
        """Called with the count of received bytes."""

    # On the loop.

    def on(self, stream: Stream) -> ReadableOutput:
        """Set the stream of the output."""
        self._stream = stream
        return self

    def add(self, channel: Channel, data: bytes) -> None:
        if channel is Channel.STDOUT:
            self._unannounced += len(data)
            self._pieces.offer(channel, data, self._stream)
        else:
            super().add(channel, data)

    async def put(self, data: bytes) -> None:
        """Add the next bytes of a source, and wait until they were read."""
        self._pieces.offer(Channel.STDOUT, data, _NO_BACK_PRESSURE)
        self._ring()
        await self._pieces.drained()

    def end(self, code: int = -1) -> None:
        """Mark the end of the command, with its exit code if known."""
        self.code, self._has_ended = code, True
        self._ring()

    def drop(self) -> None:
        """Drop unread bytes: the reader is gone."""
        self._pieces.drop()

    def _ring_soon(self) -> None:
        if self._unannounced >= BATCH:
            self._ring()
        elif self._due is None:
            self._due = current().loop.call_later(BATCH_DELAY, self._ring)

    def _ring(self) -> None:
        self._unannounced = 0
        if self._due:
            self._due.cancel()
            self._due = None
        if self._bell.locked():
            self._bell.release()

    # In a worker thread.

    def read(self, size: int = PIECE) -> bytes:
        """Return at most so many bytes, and none at the end.

        Raises:
            CallCancelledError: The current thread's scope was cancelled.
        """
        check_scope()
        while self._begin == len(self._rest):
            has_ended = self._has_ended  # read first: all output has then arrived
            if self._pieces:
                self._rest, self._begin = b"".join(data for _, data in self._pieces.pop_all()), 0
                current().soon(self._pieces.acknowledge, len(self._rest))
                self.on_read(len(self._rest))
            elif has_ended:
                return b""
            else:
                self._bell.acquire()
                check_scope()
        begin, self._begin = self._begin, min(self._begin + size, len(self._rest))
        return self._rest[begin : self._begin]

    def read_line(self) -> bytes:
        """Return the next line with its end, or the rest."""
        line = b""
        while not line.endswith(b"\n") and (byte := self.read(1)):
            line += byte
        return line

    def copy(self, file: BinaryIO, count: Counter) -> None:
        """Write the rest to a file, and count the bytes."""
        while piece := self.read():
            file.write(piece)
            count.add(len(piece))

    def drain(self, limit: int) -> bool:
        """Read to the end. Returns True if the end came within so many bytes."""
        while limit > 0 and (data := self.read()):
            limit -= len(data)
        return limit > 0


async def run_reader(bring: Callable[[ReadableOutput], Awaitable[int]], take: Callable[[ReadableOutput], T]) -> T:
    """Run a reading function on a worker thread along with a coroutine, and return the function's result.

    Args:
        bring: Sends all data, such as a command's output, and returns an exit code. Cancelled if `take` fails or
            returns first.
        take: Reads the data.
    """
    reader = ReadableOutput()

    async def brought() -> None:
        code = -1
        try:
            code = await bring(reader)
        finally:
            reader.end(code)

    running = spawn(brought(), may_fail=True)
    try:
        result = await in_worker(take, reader)
    finally:
        reader.drop()
        if not running.done():
            running.cancel()
        await asyncio.wait((running,))
        if not running.cancelled():
            running.result()  # its error says more than the reader's unexpected end of output
    return result
