"""Background processes: commands with a stream of their own, and their unread output."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import re
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from environments.cancellation import check_scope, on_scope_cancel
from environments.errors import (
    EnvironmentLostError,
    ProcessEndedError,
    ProcessTimeoutError,
    TerminalError,
    UnsupportedError,
)
from environments.log import logger
from environments.loop import Call, current, done_within, in_worker, on_loop, shielded, spawn
from environments.options import CheckedCommand, check_text, check_timeout
from environments.output import Channel, LoopSink, OutputSink, ReadableSink, incomplete_bytes
from environments.plain_number import plain_number
from environments.process import Background, Process, Terminal
from environments.result import KILLED_EXIT_CODE
from environments.shell.dialect.base import ShellRequest, Where
from environments.shell.dialect.commands import brand_of, branding
from environments.shell.lifecycle import weak_proxy
from environments.shell.output import Delivery, Direct
from environments.shell.run import SIGNAL_LIMIT, UNLIMITED, Running
from environments.shell.shell import Shell
from environments.shell.stream import Stream

if TYPE_CHECKING:
    from environments.shell.environment import PersistentShellEnvironment
    from environments.shell.lifecycle import Lifecycle
    from environments.shell.pool import Control, Shells
    from environments.shell.users import TargetUser

TAIL = 500
"""Bytes of the last output quoted in an error."""
_WHERE = {"open": Where.LAST, "none": Where.SUBSHELL, "consumed": Where.ATTACHED}

RESCAN = 0.25
"""Growth of the output, as a part of its size, before a pattern searches all of it again while more output arrives."""
_NO_INPUT = "the process was started without an input"

log = logger(__name__)


class Processes:
    """Starts commands in the background, and holds the running ones.

    Args:
        env: The environment.
        shells: The shells of the target.
    """

    def __init__(self, env: PersistentShellEnvironment, shells: Shells) -> None:
        self._env = weak_proxy(env)
        self._shells = shells
        self._numbers = itertools.count()
        self.running: set[ShellProcess] = set()
        """The running processes."""

    async def start(
        self, call: Call[ShellProcess], command: CheckedCommand, background: Background, user: TargetUser | None
    ) -> ShellProcess:
        """Start a command, see `BaseEnvironment.start`. A process without a caller to return to is ended."""
        env, shells = self._env, self._shells
        terminal = background.terminal
        where = Where.LAST_ON_TERMINAL if terminal else _WHERE[background.stdin]
        there = await env.oneshots.beside(command, user)
        brand = None
        if command.is_internal and where in (Where.SUBSHELL, Where.ATTACHED):  # scripts
            number = next(self._numbers)
            brand = brand_of(env.id, number)
            there = there._replace(text=branding(env.id, number) + there.text)
        pool = shells.control_of(user) if command.is_internal else shells.pool_of(user)
        request = await env.internal.make_request(
            there, where, separate=bool(background.sink and background.sink.separate), user=user
        )
        if terminal:
            shell, release = await shells.pool_of(user).open(terminal), shells.end_soon
        else:
            if command.is_internal:
                await shells.control.keep_reserve()
            shell, release = await pool.acquire(), pool.release
        process = ShellProcess(env.life, release, background, env.internal.output_limit(command))
        if command.is_internal:
            process.may_have_processes = env.new_process_check(brand)
        try:
            process.send(shell, request, shells.control_of(user))
            process.running_command.brand = None if brand is None else str(brand)
            if where.takes_input:
                await _begun(shell, background.first_input)
        except asyncio.CancelledError:  # the command may have begun
            self._follow(process)
            await shielded(spawn(process.ended_by_us()))
            raise
        except BaseException as error:
            shell.give_up()
            release(shell)
            if isinstance(error, BrokenPipeError):
                raise await self._killed() from error
            raise
        self._follow(process)
        call.undo = ShellProcess.ended_by_us
        return process

    def _follow(self, process: ShellProcess) -> None:
        self.running.add(process)
        process.follow(self.running.discard)

    async def _killed(self) -> EnvironmentLostError:
        if loss := await self._shells.why_lost():
            return self._shells.lost(loss)
        return EnvironmentLostError(
            "the shell that was to run a background command was killed from outside. Whether the command had begun is "
            "not known, and it was not run again"
        )


class ShellProcess(Process):
    """A background command, run by a shell of its own or by a fork of a lent shell. Made by `Processes.start`.

    Args:
        life: Checks for use in another process.
        release: Returns the shell.
        background: The options.
        limit: Bytes of unread output to keep.
    """

    def __init__(self, life: Lifecycle, release: Callable[[Shell], object], background: Background, limit: int) -> None:
        self._life, self._release = life, release
        self._grace, self._copy = background.grace, background.output_copy
        self._given_sink = background.sink
        self._unread = UnreadOutput(limit)
        self._delivery = self._delivery_to(background.sink) if background.sink else None
        self._exit_code: int | None = None
        self._error: Exception | None = None
        self._callbacks: list[Callable[[int | None], object]] = []
        self.done: asyncio.Future[None] = current().loop.create_future()
        self._input_closed = False
        self.may_have_processes: Callable[[str], Awaitable[bool]] | None = None
        """Returns, without a query in the target, False if an ended command has certainly left no process."""

    # On the loop.

    def _delivery_to(self, sink: OutputSink) -> Delivery | Direct:
        if hasattr(sink, "attach") and isinstance(sink, LoopSink):
            return Direct(sink, self, self._sink_failed)
        return Delivery(sink, self._sink_failed)

    def send(self, shell: Shell, request: ShellRequest, control: Control) -> None:
        """Send the request to the shell."""
        self._shell, self.pid = shell, shell.pid
        self._takes_input = request.where.takes_input
        self._input_closed = not self._takes_input
        self._is_on_terminal = request.where is Where.LAST_ON_TERMINAL
        sink = self._delivery or self._unread
        sink.stream = shell.stream
        self.running_command = Running(
            shell, request, self._copy.into(sink) if self._copy else sink, self._grace, control
        )

    def follow(self, on_end: Callable[[ShellProcess], object]) -> None:
        """Wait for the end in a task of its own."""
        spawn(self._follow(on_end))

    async def _follow(self, on_end: Callable[[ShellProcess], object]) -> None:
        command = self.running_command
        try:
            ended = await command.wait(math.inf)
            if command.reason:
                unknown = KILLED_EXIT_CODE if ended.exit_code is None else 0
                self._exit_code = ended.exit_code or await self._shell.stream.exit_code(SIGNAL_LIMIT) or unknown
            else:
                self._exit_code = await command.exit_code(ended)
        except TerminalError as error:
            self._error = error
            self._life.postpone(error)  # because a caller may never ask
        finally:
            if command.reason or self._exit_code != 0:
                self._shell.give_up()  # the command's input may be unread in front of the shell
            self._release(self._shell)
            if self._delivery:
                await self._delivery.flush()
                self._error = self._delivery.error or self._error
            self._unread.end()
            self.done.set_result(None)
            on_end(self)
            callbacks, self._callbacks = self._callbacks, []
            for callback in callbacks:
                await in_worker(self._call, callback)

    def _sink_failed(self) -> None:
        self.running_command.interrupt()

    async def ended_by_us(self) -> None:
        """End the command with its process tree, and wait for the end."""
        self.running_command.interrupt()
        await shielded(self.done)
        if self.running_command.reason is None and self._life.is_open:
            self.running_command.reason = "sweep"
            if self.may_have_processes and not await self.may_have_processes(self.running_command.marker):
                return
            await self.running_command.tree().end(self._grace, running=False)

    async def dropped(self) -> None:
        """End the command. Output is dropped, as the sink may wait for a step after the start."""
        if self._delivery:
            self._delivery.drop()
        await self.ended_by_us()

    def _call(self, callback: Callable[[int | None], object]) -> None:
        try:
            callback(None if self._error else self._exit_code)
        except Exception:  # raised by the caller's callback, in a thread that must go on
            log.exception("a callback for the end of a background process failed")

    # Methods for a sink on the loop, see `AttachedProcess`.

    def feed(self, data: bytes) -> None:
        """Send bytes, see `AttachedProcess`."""
        if self.running_command.ended or self._input_closed:
            raise BrokenPipeError("the process has ended, or its input")
        self._shell.stream.write(data)

    @property
    def is_flushed(self) -> bool:
        """True once all bytes are sent, see `AttachedProcess`."""
        return self._shell.stream.is_sent or self.done.done()

    async def flush(self) -> None:
        """Wait until all bytes are sent, see `AttachedProcess`."""
        if not self.is_flushed:
            draining = spawn(self._shell.stream.drain())
            try:
                await asyncio.wait((draining, self.done), return_when=asyncio.FIRST_COMPLETED)
            finally:
                draining.cancel()

    def pause(self) -> None:
        """Pause the output, see `AttachedProcess`."""
        self._shell.stream.pause()

    def resume(self) -> None:
        """Resume the output, see `AttachedProcess`."""
        if not self.done.done():
            self._shell.stream.resume()

    # The interface, see `Process`.

    def check_process(self) -> None:
        """Raise TerminalError if the command belongs to another process."""
        self._life.check_process()

    @property
    def running(self) -> bool:
        return not self.done.done()

    @on_loop
    async def read(self) -> str:
        if self._given_sink is None:
            return self._unread.read_new(final=self.done.done())
        if isinstance(self._given_sink, ReadableSink):
            return await in_worker(self._given_sink.read_new, self.done.done())
        return ""

    @on_loop
    async def expect(self, wanted: str | re.Pattern[str], timeout: float | None = None) -> str:
        search = OutputSearch(wanted)
        seconds = math.inf if timeout is None else check_timeout(timeout)
        if self._given_sink is not None:
            raise UnsupportedError("the process was started with a sink, which receives its output; search there")
        try:
            return await self._unread.take_to(search, seconds)
        except EOFError:
            ended = f"the process ended with exit code {self.poll()} {_without(wanted, self._unread)}"
            raise ProcessEndedError(ended, self.poll()) from None
        except TimeoutError:
            late = f"after {plain_number(seconds)} s the process runs {_without(wanted, self._unread)}"
            raise ProcessTimeoutError(late) from None

    @on_loop
    async def write(self, data: str | bytes) -> None:
        if not isinstance(data, (bytes, bytearray)):
            check_text("data", data)
        raw = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else bytes(data)
        if self.done.done():
            raise BrokenPipeError("the process has ended")
        if self._input_closed:
            raise BrokenPipeError("its input was closed" if self._takes_input else _NO_INPUT)
        self._shell.stream.write(raw)
        await self.flush()

    @on_loop
    async def close_stdin(self) -> None:
        if not self._input_closed:
            self._input_closed = not self._is_on_terminal
            with contextlib.suppress(BrokenPipeError):
                self._shell.stream.close_write()

    def poll(self) -> int | None:
        if not self.done.done():
            return None
        if self._error:
            self._life.note_raised(self._error)
            raise self._error
        if self._exit_code is None:
            raise EnvironmentLostError("the target went away while a background process ran")
        return self._exit_code

    @on_loop
    async def wait(self, timeout: float | None = None) -> int | None:
        if timeout is None or timeout >= UNLIMITED:
            await shielded(self.done)
        else:
            await done_within(self.done, timeout)
        return self.poll()

    @on_loop
    async def add_done_callback(self, callback: Callable[[int | None], object]) -> None:
        if self.done.done():
            await in_worker(self._call, callback)
        else:
            self._callbacks.append(callback)

    @on_loop
    async def kill(self) -> None:
        await self.ended_by_us()

    @on_loop
    async def resize(self, rows: int, columns: int) -> None:
        size = Terminal.checked(rows, columns)
        if not self.done.done():
            with contextlib.suppress(OSError, ValueError):  # the process is just ending
                await self._shell.stream.resize(size)


async def _begun(shell: Shell, first_input: bytes) -> None:
    """Send a command's first input, and wait for its beginning. The command may end before all input is sent.

    Raises:
        BrokenPipeError: The command did not begin.
    """
    reads_ahead = shell.dialect.reads_ahead  # and would take input as script
    if first_input and not reads_ahead:
        with contextlib.suppress(BrokenPipeError):
            shell.stream.write(first_input)
    await shell.wait_begun()
    if first_input and reads_ahead:
        with contextlib.suppress(BrokenPipeError):
            shell.stream.write(first_input)


def _without(wanted: str | re.Pattern[str], output: UnreadOutput) -> str:
    """Describe the missing text, and quote the last output."""
    tail = output.tail(TAIL)
    printed = f"the last of it is {tail!r}" if tail else "nothing was printed since the last read"
    return f"and has not printed {(wanted if isinstance(wanted, str) else wanted.pattern)!r}; {printed}"


class OutputSearch:
    """Searches growing output for a pattern. The match may begin and end anywhere.

    All output is searched again after new output. While much output arrives, a search is put off until the output has
    grown by `RESCAN`, or as much time has passed as the last search took: the whole search takes linear time.

    Args:
        wanted: The pattern or the text.

    Raises:
        TypeError: `wanted` is neither.
        ValueError: `wanted` is empty.
    """

    def __init__(self, wanted: object) -> None:
        if isinstance(wanted, str):
            if not wanted:
                raise ValueError("the expected text is empty; give a text to wait for")
            self._pattern = re.compile(re.escape(wanted))
        elif isinstance(wanted, re.Pattern) and isinstance(wanted.pattern, str):
            self._pattern = wanted
        else:
            kind = type(wanted).__name__
            raise TypeError(f"the expected text is of type {kind}; give text, or a compiled pattern of text")
        self._seen = -1
        self._next_size = 0.0
        self._next_time = 0.0

    @property
    def patience(self) -> float:
        """Seconds until another search is due without new output; infinite if none is."""
        return max(0.0, self._next_time - time.monotonic())

    def end_in(self, data: bytearray, before: int, *, at_once: bool) -> int | None:
        """Return the end of the match in `data`; None without a match.

        Args:
            data: The unread output.
            before: Count of bytes already read and removed.
            at_once: True to search now, as there may be no later chance.
        """
        size, now = before + len(data), time.monotonic()
        if size == self._seen and not at_once:  # already searched
            self._next_time = math.inf
            return None
        if not at_once and size < self._next_size and now < self._next_time:
            return None
        self._seen = size
        # An invalid byte becomes one character, so the match has a known size in bytes.
        text = data[: len(data) - incomplete_bytes(bytes(data[-4:]))].decode("utf-8", "surrogateescape")
        found = self._pattern.search(text)
        self._next_size = size + RESCAN * len(data)
        self._next_time = 2 * time.monotonic() - now
        return len(text[: found.end()].encode("utf-8", "surrogateescape")) if found else None


class UnreadOutput:
    """Output until it is read. Above the limit the oldest bytes are dropped, so that a command never waits.

    Used on the loop thread. During a search, the stream is paused at the limit instead, until the search has seen all
    output (back-pressure).

    Args:
        limit: The limit in bytes.
    """

    def __init__(self, limit: int) -> None:
        self.stream: Stream | None = None
        """The output's stream."""
        self._limit = limit
        self._data = bytearray()
        self._before = 0
        self._searches = 0
        self._is_paused = False
        self._changed = asyncio.Event()
        self._has_ended = False

    def add(self, channel: Channel, data: bytes) -> None:
        """Add the next bytes of output, see `Sink`."""
        self._data += data
        if len(self._data) > self._limit:
            if self._searches:
                self._pause()
            else:
                self._remove(len(self._data) - self._limit)
        self._wake()

    def _pause(self) -> None:
        if self.stream and not self._is_paused:
            self._is_paused = True
            self.stream.pause()

    def _resume(self) -> None:
        self._remove(len(self._data) - self._limit)
        if self._is_paused and self.stream:
            self._is_paused = False
            self.stream.resume()

    def end(self) -> None:
        """Mark the end of the output."""
        self._has_ended = True
        self._wake()

    def _wake(self) -> None:
        """Wake every search. Each holds the event from before its last look, so no output is missed."""
        self._changed.set()
        self._changed = asyncio.Event()

    def read_new(self, final: bool) -> str:
        """Return the output since the last call. An incomplete character is kept back, unless `final`."""
        size = len(self._data) - (0 if final else incomplete_bytes(bytes(self._data[-4:])))
        return self._remove(size).decode("utf-8", "replace")

    async def take_to(self, search: OutputSearch, seconds: float) -> str:
        """Wait for a match, and return the output since the last call up to the end of the match.

        Args:
            search: The search. Runs on a worker thread, as a pattern may be slow.
            seconds: The time-out; infinite waits for the end of the output.

        Raises:
            TimeoutError: No match in time. The output stays unread.
            EOFError: No match before the end of the output. The output stays unread.
            CallCancelledError: The caller's scope was cancelled.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        self._searches += 1
        try:
            with on_scope_cancel(lambda: current().soon(self._wake)):
                while True:
                    check_scope()
                    changed = self._changed
                    left = deadline - loop.time()
                    is_last = self._has_ended or left <= 0
                    if (found := await self._look(search, at_once=is_last or self._is_paused)) is not None:
                        return found
                    if is_last:
                        raise EOFError if self._has_ended else TimeoutError
                    if not changed.is_set():  # else output that arrived during the search would be dropped unseen
                        self._resume()
                    with contextlib.suppress(TimeoutError):
                        wait = min(left, search.patience)
                        async with asyncio.timeout(None if wait == math.inf else wait):
                            await changed.wait()
        finally:
            self._searches -= 1
            self._resume()

    async def _look(self, search: OutputSearch, *, at_once: bool) -> str | None:
        """Take the output up to a match; None without a match."""
        while True:
            before, data = self._before, bytearray(self._data)
            end = await in_worker(partial(search.end_in, data, before, at_once=at_once))
            if end is None:
                return None
            if before == self._before:  # no other read took output meanwhile
                return self._remove(end).decode("utf-8", "replace")

    def tail(self, size: int) -> str:
        """Return the last unread bytes without a read."""
        return self._data[-size:].decode("utf-8", "replace")

    def _remove(self, size: int) -> bytes:
        """Remove and return up to so many of the oldest bytes."""
        removed = bytes(self._data[: max(0, size)])
        del self._data[: len(removed)]
        self._before += len(removed)
        return removed
