"""Bytes on their way between commands in the target and worker threads, which read and write this machine's files."""

from __future__ import annotations

import _thread
import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from environments.cancellation import check_scope
from environments.local_files import PIECE
from environments.loop import Pieces, current, in_worker, spawn
from environments.options import CheckedCommand
from environments.output import BoundedCapture, Channel, Sink
from environments.result import CommandResult
from environments.shell.dialect.files import FUNCTIONS
from environments.shell.lifecycle import weakly

if TYPE_CHECKING:
    from environments.shell.environment import PersistentShellEnvironment
    from environments.shell.oneshot import Write
    from environments.shell.stream import Stream
    from environments.shell.users import TargetUser
    from environments.starting import Counter

T = TypeVar("T")
TIME_LIMIT = 60.0
"""Seconds for a command that moves what is small."""
BATCH = 256 * 1024
"""Bytes for which a thread is woken that reads."""
BATCH_DELAY = 0.002
"""Seconds for which fewer may wait."""
LONGEST_REASON = 4096
"""Bytes of what a program says that are told."""


class Runner:
    """Runs commands of our own where the files of the target are, each beside all others. Used on the loop.

    Args:
        env: The environment.
        user: The user that they run as; None is the target's own.
    """

    def __init__(self, env: PersistentShellEnvironment, user: str | None = None) -> None:
        self._env = weakly(env)
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
        """Run a command that reads an input, see `OneshotRunner.run_fed`."""
        user = await self.ready()
        return await self._env.oneshots.run_fed(command._replace(is_internal=True), user, sink, feed, size)


def call_at(
    path: str, command: str, functions: tuple[str, ...] = (FUNCTIONS,), *, separate: bool = False
) -> CheckedCommand:
    """Return the call of a command about a path; only for a relative one the session's directory matters.

    Args:
        path: The path.
        command: Shell text.
        functions: Definitions that it uses, see `Request`.
        separate: Whether standard error is kept apart.
    """
    cwd = "/" if path.startswith(("/", "~")) else None
    return CheckedCommand(command, cwd, TIME_LIMIT, separate=separate, functions=functions)


async def sent(produce: Callable[[Callable[[bytes], None]], T], write: Write) -> T:
    """Run a function on a worker thread that produces bytes, and return its result.

    Args:
        produce: Is given a function that hands a piece to `write`, and raises what that does.
        write: Sends a piece.
    """
    loop = current().loop

    def send(data: bytes) -> None:
        check_scope()
        asyncio.run_coroutine_threadsafe(write(data), loop).result()

    return await in_worker(produce, send)


class Words:
    """Keeps the beginning of what a command says, as a sink."""

    def __init__(self) -> None:
        self._said = BoundedCapture(LONGEST_REASON)

    def add(self, _: Channel, data: bytes) -> None:
        """Take the next bytes."""
        self._said.add(data)

    @property
    def text(self) -> str:
        """What was said."""
        return self._said.text().text


class Collected(Words):
    """Keeps all of standard output, and the beginning of standard error, as a sink."""

    def __init__(self) -> None:
        super().__init__()
        self.data = bytearray()
        """Standard output."""

    def on(self, _: Stream) -> Collected:
        """Return what takes the output of a stream."""
        return self

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes."""
        if channel is Channel.STDOUT:
            self.data += data
        else:
            super().add(channel, data)


class _Patient:
    """A source that waits for the reader by itself, see `Pausable`."""

    def pause(self) -> None:
        """Do nothing."""

    def resume(self) -> None:
        """Do nothing."""


_PATIENT = _Patient()


class Arriving(Words):
    """What a command prints, as a sink on the loop and as a file that a worker thread reads.

    The command waits while too much is unread. Standard error is kept apart. The thread is woken for much at a time:
    whenever both threads have something to do, they hand the interpreter to and fro.
    """

    def __init__(self) -> None:
        super().__init__()
        self._bell = _thread.allocate_lock()
        self._pieces = Pieces(self._ring_soon)
        self._unannounced = 0
        self._due: asyncio.TimerHandle | None = None
        self._rest, self._begin = b"", 0
        self._has_ended = False
        self.code = -1
        """The exit code, once everything was read."""
        self.on_read: Callable[[int], object] = lambda _: None
        """Called with the bytes that have arrived."""

    # On the loop.

    def on(self, stream: Stream) -> Arriving:
        """Take the output of a stream."""
        self._stream = stream
        return self

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes."""
        if channel is Channel.STDOUT:
            self._unannounced += len(data)
            self._pieces.offer(channel, data, self._stream)
        else:
            super().add(channel, data)

    async def put(self, data: bytes) -> None:
        """Take the next bytes of a source that waits until they were read."""
        self._pieces.offer(Channel.STDOUT, data, _PATIENT)
        self._ring()
        await self._pieces.drained()

    def end(self, code: int = -1) -> None:
        """Note the end of the command, and its exit code if it came to one."""
        self.code, self._has_ended = code, True
        self._ring()

    def drop(self) -> None:
        """Drop what was not read, as nothing reads any more."""
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
            CallCancelledError: The scope of the current thread was cancelled.
        """
        check_scope()
        while self._begin == len(self._rest):
            has_ended = self._has_ended  # asked before: all that was printed is then here
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
        """Return the next line with its end, or what there is of it."""
        line = b""
        while not line.endswith(b"\n") and (byte := self.read(1)):
            line += byte
        return line

    def copy(self, file: BinaryIO, count: Counter) -> None:
        """Write what is left to a file, and count it."""
        while piece := self.read():
            file.write(piece)
            count.add(len(piece))

    def drain(self, limit: int) -> bool:
        """Read to the end, and return whether it came within so many bytes."""
        while limit > 0 and (data := self.read()):
            limit -= len(data)
        return limit > 0


async def received(bring: Callable[[Arriving], Awaitable[int]], take: Callable[[Arriving], T]) -> T:
    """Have a function on a worker thread read what a coroutine brings, and return the function's result.

    Args:
        bring: Hands over all there is, such as what a command prints, and returns an exit code. It is cancelled if
            `take` fails, or returns before it.
        take: Reads it.
    """
    arriving = Arriving()

    async def brought() -> None:
        code = -1
        try:
            code = await bring(arriving)
        finally:
            arriving.end(code)

    running = spawn(brought(), may_fail=True)
    try:
        result = await in_worker(take, arriving)
    finally:
        arriving.drop()
        if not running.done():
            running.cancel()
        await asyncio.wait((running,))
        if not running.cancelled():
            running.result()  # its error says more than that of a function which met the end of the output
    return result
