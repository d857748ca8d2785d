"""A duplex byte stream to a process in a target that offers short commands and files, and nothing else.

A piece of input is one command, which delivers the bytes and brings what the process says to them at once; output is
waited for by a command that waits in the target until there is something to bring. All of them may be repeated without
harm, so that an answer that got lost on its way is asked for again.
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
    Delivery,
    Look,
    closing_input,
    discarding,
    exchange,
)

if TYPE_CHECKING:
    from environments.short_commands.environment import PerCommandEnvironment

WAIT = 20.0
"""Seconds that one command waits in the target: far below the limits that services and proxies set on a call."""
FIRST_WAIT = 0.1
"""Seconds that a write waits for what the process says to it: most commands are over by then."""
SLACK = 30.0
"""Seconds for the way there and back, on top of the waiting."""
SMALL_INPUT = 24 * 1024
"""Bytes that are delivered in the command itself. More goes there as a file."""
LONGEST_QUIET = 0.2
"""Seconds by which output may be late so that a process that prints little by little does not cost a call each."""
ATTEMPTS = 3
_FREE_STEP = 8 * 1024 * 1024


class PolledStream(SendingStream):
    """A process that is started with the first write, and polled while its output is waited for. See `SkippingStream`.

    Args:
        target: Where it runs.
        scratch: The private directory of the environment, in which its own directory will be.
        argv: The program and its arguments.
    """

    def __init__(self, target: PerCommandEnvironment, scratch: str, argv: Sequence[str]) -> None:
        super().__init__()
        self._target = target
        self._scratch = scratch
        self._directory = f"{scratch}/{os.urandom(6).hex()}"
        self._argv: Sequence[str] | None = argv
        """None once it has been started."""
        self._is_looking = False
        """True while one command waits for output: no other one does."""
        self._poller: asyncio.Task[None] | None = None
        self._is_waited_for = self._is_paused = False
        self._held: list[tuple[Channel, bytes]] = []
        """Output that arrived while it was paused."""
        self._deliveries = 0
        self._offsets = [0, 0]
        self._freed = [0, 0]
        self._exit_code: int | None = None
        self._quiet = 0.0
        self._keep, self._head_ends = 0, [0, 0]
        self._on_skip: Callable[[Channel, int], object] | None = None
        self.skipper = self

    @property
    def _is_gone(self) -> bool:
        """True if the target has been lost since the stream was opened, though another may be there."""
        return self._target.scratch.made != self._scratch

    def _begin(self) -> None:
        self._over: asyncio.Future[None] = current().loop.create_future()
        """Done when the process has ended, or is given up."""

    def keep_ends(self, size: int, on_skip: Callable[[Channel, int], object]) -> None:
        """From here on bring the first and the last bytes of each channel alone, see `SkippingStream`."""
        self._keep, self._on_skip = size, on_skip
        self._head_ends = [offset + size for offset in self._offsets]

    def keep_all(self) -> None:
        """Bring everything again, see `SkippingStream`."""
        self._keep, self._on_skip = 0, None

    # Input.

    async def _send(self, data: bytes) -> None:
        number, file = self._deliveries + 1, ""
        if not (self._target.has_base64 and len(data) <= SMALL_INPUT):
            file = f"{self._directory}.piece{number}"
            await self._target.put_native(data, file)
        delivery = Delivery(number, data, file)
        try:
            if self._is_looking:  # what is waiting for output already brings it
                is_taken = await self._deliver(delivery, None)
            else:
                with self._lookout():
                    is_taken = await self._deliver(delivery, self._look(FIRST_WAIT))
        finally:
            self._poll()  # which brings the last words of a process that is gone
        while not is_taken:  # the process reads more slowly than it is written to
            is_taken = await self._deliver(delivery, None)
        self._deliveries = number

    async def _deliver(self, delivery: Delivery, look: Look | None) -> bool:
        """Deliver a piece of input, and return whether there was room for it."""
        if self._over.done() or self._is_gone:
            self._finish()
            raise BrokenPipeError
        lines = await self._ask(exchange(self._directory, self._argv, delivery, look), FIRST_WAIT)
        if lines is None or lines[0] in (LOST, FAILED):
            if lines and lines[0] == FAILED:
                self._received(Channel.STDERR, f"no process can be kept there: {' '.join(lines[1:])}".encode())
            else:
                got = "in part" if lines else "or not, as it gave no answer"
                await self._target.lost(f"a command got there {got}")
            self._finish()
            raise BrokenPipeError
        self._argv = None
        self._is_waited_for = True
        if lines[0] == GONE:
            raise BrokenPipeError
        if lines[0] == FULL:
            return False
        if look:
            await self._take_or_finish(lines)
        return True

    async def _send_end(self) -> None:
        if not self._is_gone:
            await self._target.run_once(closing_input(self._directory), SLACK)

    # Output.

    def rest(self, *, reports: bool) -> None:
        """Stop polling until something is written, see `Stream`."""
        self._is_waited_for = False
        self._quiet = 0.0

    def pause(self) -> None:
        """Stop reading, see `Stream`."""
        self._is_paused = True

    def resume(self) -> None:
        """Read on, see `Stream`."""
        self._is_paused, self._is_waited_for = False, True
        held, self._held = self._held, []
        for channel, data in held:
            self._received(channel, data)
        if self._over.done():
            self._finish()
        self._poll()

    @contextlib.contextmanager
    def _lookout(self) -> Iterator[None]:
        self._is_looking = True
        try:
            yield
        finally:
            self._is_looking = False

    @property
    def _may_poll(self) -> bool:
        return self._is_waited_for and not (self._is_looking or self._argv or self._is_paused or self._over.done())

    def _poll(self) -> None:
        """Have output waited for, unless it is already, or must not be."""
        if self._may_poll and self._poller is None:
            self._poller = current().spawn(self._poll_on(), Context())

    async def _poll_on(self) -> None:
        try:
            await asyncio.sleep(0)  # what is written just now had better look itself
            while self._may_poll:
                with self._lookout():
                    await self._look_once()
        except BaseException:
            self._finish()  # else it would be waited for in vain
            raise
        finally:
            self._poller = None

    async def _look_once(self) -> None:
        lines = None
        if not self._is_gone:
            lines = await self._ask(exchange(self._directory, None, None, self._look(WAIT)), WAIT)
        if lines is None or lines[0] in (GONE, LOST, FAILED):
            self._finish()
        else:
            await self._take_or_finish(lines)

    def _look(self, limit: float) -> Look:
        ends = zip(self._offsets, self._head_ends, strict=True)
        keep = [self._keep if offset >= head_end else 0 for offset, head_end in ends]
        spent = [0, 0]
        for index, offset in enumerate(self._offsets):
            if offset - self._freed[index] > _FREE_STEP:
                self._freed[index] = spent[index] = offset
        return Look(
            (self._offsets[0], self._offsets[1]),
            limit,
            quiet=LONGEST_QUIET if any(keep) else self._quiet,
            keep=(keep[0], keep[1]),
            spent=(spent[0], spent[1]),
            inline=INLINE if self._target.has_base64 else -1,
        )

    async def _ask(self, text: str, wait: float) -> list[str] | None:
        """Return the lines of an answer, or None if there is none to be had."""
        for attempt in range(ATTEMPTS):
            try:
                result = await self._target.run_once(text, wait + SLACK)
            except TerminalError:
                return None
            lines = result.output.splitlines()
            # What the service or its shell has to say comes before.
            first = next((index for index, line in enumerate(lines) if line.startswith("@@")), None)
            if first is not None and (lines[-1] == END or lines[first] in (GONE, LOST, FAILED, FULL)):
                return lines[first:]
            await asyncio.sleep(0.1 * 2**attempt)
        return None

    async def _take_or_finish(self, lines: list[str]) -> None:
        try:
            await self._take(lines)
        except (TerminalError, ValueError):  # the process's files are gone, or a large piece of output cannot be had
            self._finish()

    async def _take(self, lines: list[str]) -> None:
        words = lines[0].split()
        if words[0] != ANSWER:
            return
        begins, ends = (int(words[2]), int(words[4])), (int(words[3]), int(words[5]))
        middle = lines.index(CHANNEL_2)
        inline = ("".join(lines[lines.index(CHANNEL_1) + 1 : middle]), "".join(lines[middle + 1 : -1]))
        size = sum(ends) - sum(begins)
        self._quiet = min(LONGEST_QUIET, self._quiet * 2 + 0.02) if 0 < size < INLINE else 0.0
        for index, channel in enumerate(Channel):
            begin, size = begins[index], ends[index] - begins[index]
            skipped = begin - self._offsets[index]
            if skipped > 0 and self._on_skip:
                self._on_skip(channel, skipped)
            data = await self._brought(index + 1, begin, size, inline[index]) if size > 0 else b""
            self._offsets[index] = begin + len(data)
            self._received(channel, data)
        if words[1] == "1" and all(offset >= end for offset, end in zip(self._offsets, ends, strict=True)):
            self._exit_code = int(words[6]) if len(words) > 6 else None
            self._finish()

    async def _brought(self, channel: int, begin: int, size: int, inline: str) -> bytes:
        if self._target.has_base64 and size <= INLINE:
            data = base64.b64decode(inline)
        else:
            size = min(size, PIECE)
            data = await self._target.get_native(f"{self._directory}/part{channel}.{begin}.{size}")
        if len(data) != size:
            raise TerminalError("a piece of output is not all there")
        return data

    def _received(self, channel: Channel, data: bytes) -> None:
        if self._is_paused:
            self._held.append((channel, data))
        elif data and not self.has_ended:
            self.receiver.data_received(channel, data)

    # The end.

    def _finish(self) -> None:
        """Note that nothing more comes, once what has come has been received."""
        if not self._over.done():
            self._over.set_result(None)
        if not self._held:
            self._end()

    async def exit_code(self, timeout: float) -> int | None:
        """Return how the process ended, see `Stream`."""
        self._is_waited_for = True
        self._poll()
        await done_within(self._over, timeout)
        return self._exit_code

    async def close(self) -> None:
        """Give up the stream; the process is killed. See `Stream`."""
        if not self._is_closed:
            self._is_closed = True
            self._held.clear()
            self._finish()
            if self._poller:
                self._poller.cancel()
            await self.drain()  # it may be starting the process just now
            if self._argv is None and not self._is_gone and not self._target.is_ending:
                with contextlib.suppress(TerminalError):
                    await self._target.run_once(discarding(self._directory), SLACK)
