"""Duplex byte stream to a process in a target with only short commands and files.

A piece of input is one command: it delivers the bytes, and returns the output that follows at once. Later output is
polled: a command waits in the target until there is output. All these commands are safe to repeat, so a lost answer is
requested again.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextvars import Context
from typing import TYPE_CHECKING

from environments.errors import TerminalError
from environments.loop import current, done_within
from environments.output import Channel
from environments.shell.sending_stream import SendingStream
from environments.short_commands.scripts import (
    ANSWER,
    CHANNEL_1,
    CHANNEL_2,
    END,
    FAILED,
    FULL,
    GONE,
    INLINE,
    LOST,
    PIECE,
    InputPiece,
    OutputRequest,
    close_input_text,
    discard_text,
    exchange,
)

if TYPE_CHECKING:
    from environments.short_commands.environment import PerCommandEnvironment

WAIT = 20.0
"""Seconds that one command waits in the target: far below the time-outs of services and proxies."""
FIRST_WAIT = 0.1
"""Seconds that a write waits for output: most commands have ended by then."""
SLACK = 30.0
"""Seconds for the round trip, on top of the wait."""
SMALL_INPUT = 24 * 1024
"""Bytes that fit into the command itself. Larger input is sent as a file."""
MAX_QUIET = 0.2
"""Maximum delay of output in seconds, so that many small pieces need few calls."""
ATTEMPTS = 3
_FREE_STEP = 8 * 1024 * 1024


class PolledStream(SendingStream):
    """A process that starts with the first write, and is polled while its output is awaited. See `SkippingStream`.

    Args:
        target: The environment.
        scratch: The environment's private directory; the process gets a directory in it.
        argv: The program and its arguments.
    """

    def __init__(self, target: PerCommandEnvironment, scratch: str, argv: Sequence[str]) -> None:
        super().__init__()
        self._target = target
        self._scratch = scratch
        self._directory = f"{scratch}/{os.urandom(6).hex()}"
        self._argv: Sequence[str] | None = argv
        """None after the start."""
        self._is_polling = False
        """True while one command waits for output; a second one would be useless."""
        self._poller: asyncio.Task[None] | None = None
        self._is_output_awaited = self._is_paused = False
        self._held_output: list[tuple[Channel, bytes]] = []
        """Output that arrived during a pause."""
        self._pieces = 0
        self._offsets = [0, 0]
        self._freed = [0, 0]
        self._exit_code: int | None = None
        self._quiet = 0.0
        self._keep, self._head_ends = 0, [0, 0]
        self._on_skip: Callable[[Channel, int], object] | None = None
        self.skipper = self

    @property
    def _is_target_lost(self) -> bool:
        """True if the target was lost after the stream was opened; another target may exist."""
        return self._target.scratch.made != self._scratch

    def _begin(self) -> None:
        self._finished: asyncio.Future[None] = current().loop.create_future()
        """Done at the end of the process, or of the stream."""

    def keep_ends(self, size: int, on_skip: Callable[[Channel, int], object]) -> None:
        """Keep only the first and the last bytes of each channel from now on, see `SkippingStream`."""
        self._keep, self._on_skip = size, on_skip
        self._head_ends = [offset + size for offset in self._offsets]

    def keep_all(self) -> None:
        """Keep all output again, see `SkippingStream`."""
        self._keep, self._on_skip = 0, None

    # Input.

    async def _send(self, data: bytes) -> None:
        number, file = self._pieces + 1, ""
        if not (self._target.has_base64 and len(data) <= SMALL_INPUT):
            file = f"{self._directory}.piece{number}"
            await self._target.put_native(data, file)
        piece = InputPiece(number, data, file)
        try:
            if self._is_polling:  # the waiting command returns the output
                is_delivered = await self._deliver_input(piece, None)
            else:
                with self._polling():
                    is_delivered = await self._deliver_input(piece, self._request(FIRST_WAIT))
        finally:
            self._poll()  # also for the last output of an ended process
        while not is_delivered:  # back-pressure: the process reads slowly
            is_delivered = await self._deliver_input(piece, None)
        self._pieces = number

    async def _deliver_input(self, piece: InputPiece, request: OutputRequest | None) -> bool:
        """Deliver a piece of input. Returns False if there is no room."""
        if self._finished.done() or self._is_target_lost:
            self._finish()
            raise BrokenPipeError
        lines = await self._exchange(exchange(self._directory, self._argv, piece, request), FIRST_WAIT)
        if lines is None or lines[0] in (LOST, FAILED):
            if lines and lines[0] == FAILED:
                self._deliver_output(
                    Channel.STDERR, f"no process can be kept in the target: {' '.join(lines[1:])}".encode()
                )
            else:
                state = "arrived only in part" if lines else "may not have arrived, as no answer came"
                await self._target.lost(f"the input of a command {state}")
            self._finish()
            raise BrokenPipeError
        self._argv = None
        self._is_output_awaited = True
        if lines[0] == GONE:
            raise BrokenPipeError
        if lines[0] == FULL:
            return False
        if request:
            await self._process_or_finish(lines)
        return True

    async def _send_end(self) -> None:
        if not self._is_target_lost:
            await self._target.run_once(close_input_text(self._directory), SLACK)

    # Output.

    def rest(self, *, reports: bool) -> None:
        # No polling until the next write.
        self._is_output_awaited = False
        self._quiet = 0.0

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused, self._is_output_awaited = False, True
        held_output, self._held_output = self._held_output, []
        for channel, data in held_output:
            self._deliver_output(channel, data)
        if self._finished.done():
            self._finish()
        self._poll()

    @contextlib.contextmanager
    def _polling(self) -> Iterator[None]:
        self._is_polling = True
        try:
            yield
        finally:
            self._is_polling = False

    @property
    def _may_poll(self) -> bool:
        return self._is_output_awaited and not (
            self._is_polling or self._argv or self._is_paused or self._finished.done()
        )

    def _poll(self) -> None:
        """Start polling, unless polling is running, or must not run."""
        if self._may_poll and self._poller is None:
            self._poller = current().spawn(self._poll_loop(), Context())

    async def _poll_loop(self) -> None:
        try:
            await asyncio.sleep(0)  # a write that follows at once does its own polling
            while self._may_poll:
                with self._polling():
                    await self._poll_once()
        except BaseException:
            self._finish()  # else callers would wait for ever
            raise
        finally:
            self._poller = None

    async def _poll_once(self) -> None:
        lines = None
        if not self._is_target_lost:
            lines = await self._exchange(exchange(self._directory, None, None, self._request(WAIT)), WAIT)
        if lines is None or lines[0] in (GONE, LOST, FAILED):
            self._finish()
        else:
            await self._process_or_finish(lines)

    def _request(self, limit: float) -> OutputRequest:
        ends = zip(self._offsets, self._head_ends, strict=True)
        keep = [self._keep if offset >= head_end else 0 for offset, head_end in ends]
        spent = [0, 0]
        for index, offset in enumerate(self._offsets):
            if offset - self._freed[index] > _FREE_STEP:
                self._freed[index] = spent[index] = offset
        return OutputRequest(
            (self._offsets[0], self._offsets[1]),
            limit,
            quiet=MAX_QUIET if any(keep) else self._quiet,
            keep=(keep[0], keep[1]),
            spent=(spent[0], spent[1]),
            inline=INLINE if self._target.has_base64 else -1,
        )

    async def _exchange(self, text: str, wait: float) -> list[str] | None:
        """Return the lines of an answer; None if there is no answer."""
        for attempt in range(ATTEMPTS):
            try:
                result = await self._target.run_once(text, wait + SLACK)
            except TerminalError:
                return None
            lines = result.output.splitlines()
            # Output of the service or its shell precedes the answer.
            first = next((index for index, line in enumerate(lines) if line.startswith("@@")), None)
            if first is not None and (lines[-1] == END or lines[first] in (GONE, LOST, FAILED, FULL)):
                return lines[first:]
            await asyncio.sleep(0.1 * 2**attempt)
        return None

    async def _process_or_finish(self, lines: list[str]) -> None:
        try:
            await self._process_answer(lines)
        except (TerminalError, ValueError):  # the process's files are gone, or a large piece cannot be fetched
            self._finish()

    async def _process_answer(self, lines: list[str]) -> None:
        words = lines[0].split()
        if words[0] != ANSWER:
            return
        begins, ends = (int(words[2]), int(words[4])), (int(words[3]), int(words[5]))
        middle = lines.index(CHANNEL_2)
        inline = ("".join(lines[lines.index(CHANNEL_1) + 1 : middle]), "".join(lines[middle + 1 : -1]))
        size = sum(ends) - sum(begins)
        self._quiet = min(MAX_QUIET, self._quiet * 2 + 0.02) if 0 < size < INLINE else 0.0
        for index, channel in enumerate(Channel):
            begin, size = begins[index], ends[index] - begins[index]
            skipped = begin - self._offsets[index]
            if skipped > 0 and self._on_skip:
                self._on_skip(channel, skipped)
            data = await self._fetch_output(index + 1, begin, size, inline[index]) if size > 0 else b""
            self._offsets[index] = begin + len(data)
            self._deliver_output(channel, data)
        if words[1] == "1" and all(offset >= end for offset, end in zip(self._offsets, ends, strict=True)):
            self._exit_code = int(words[6]) if len(words) > 6 else None
            self._finish()

    async def _fetch_output(self, channel: int, begin: int, size: int, inline: str) -> bytes:
        if self._target.has_base64 and size <= INLINE:
            data = base64.b64decode(inline)
        else:
            size = min(size, PIECE)
            data = await self._target.get_native(f"{self._directory}/part{channel}.{begin}.{size}")
        if len(data) != size:
            raise TerminalError("a piece of output is incomplete")
        return data

    def _deliver_output(self, channel: Channel, data: bytes) -> None:
        if self._is_paused:
            self._held_output.append((channel, data))
        elif data and not self.has_ended:
            self.receiver.data_received(channel, data)

    # The end.

    def _finish(self) -> None:
        """Mark the end of output. The stream ends once all held output has been received."""
        if not self._finished.done():
            self._finished.set_result(None)
        if not self._held_output:
            self._end()

    async def exit_code(self, timeout: float) -> int | None:
        self._is_output_awaited = True
        self._poll()
        await done_within(self._finished, timeout)
        return self._exit_code

    async def close(self) -> None:
        # The process is killed.
        if not self._is_closed:
            self._is_closed = True
            self._held_output.clear()
            self._finish()
            if self._poller:
                self._poller.cancel()
            await self.drain()  # a write may be starting the process
            if self._argv is None and not self._is_target_lost and not self._target.is_ending:
                with contextlib.suppress(TerminalError):
                    await self._target.run_once(discard_text(self._directory), SLACK)
