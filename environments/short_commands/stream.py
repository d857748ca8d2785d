"""A duplex byte stream to a process in a target that offers short commands and files, and nothing else.

A write is one command, which delivers the bytes and brings what the process says to them at once; a read is one
command that waits in the target until there is something to bring. All of them may be repeated without harm, so that
an answer that got lost on its way is asked for again.
"""

from __future__ import annotations

import base64
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from environments.cancellation import in_no_scope
from environments.errors import EnvironmentLostError, EnvironmentStartError, TerminalError
from environments.result import CommandResult
from environments.shell.stream import Chunk, Terminal
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
from environments.sink import Channel

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
_MOST_UNREAD = 8 * 1024 * 1024
"""Bytes kept of what a process prints while only its end is waited for."""


class ShortCommands(Protocol):
    """What the target offers."""

    has_base64: bool
    """Whether it has the program `base64`."""

    @property
    def is_ending(self) -> bool:
        """Whether it is about to be stopped, with all that is in it."""

    def run_harmless(self, text: str, timeout: float) -> CommandResult:
        """Run shell text that may be run twice without harm, beside everything else.

        Raises:
            TerminalError: No answer came.
        """

    def lost(self, why: str) -> EnvironmentLostError:
        """Return what to raise when it is gone."""

    def put_native(self, source: bytes, path: str) -> None:
        """Write a file."""

    def get_native(self, path: str) -> bytes:
        """Return a file."""


class PolledStream:
    """A process that is started with the first write. See `PollingStream`.

    Args:
        target: Where it runs.
        directory: Where its files are to be; the parent exists and is private.
        argv: The program and its arguments.
        is_gone: Whether the target that it was opened on has been lost since, though another may be there.
    """

    longest_wait = WAIT

    def __init__(self, target: ShortCommands, directory: str, argv: Sequence[str], is_gone: Callable[[], bool]) -> None:
        self._target = target
        self._directory = directory
        self._argv: Sequence[str] | None = argv
        self._is_gone = is_gone
        self._reading = threading.RLock()
        self._writing = threading.Lock()
        self._numbers = 0
        self._offsets = [0, 0]
        self._freed = [0, 0]
        self._chunks: deque[Chunk] = deque()
        self._ended = self._closing = self._closed = False
        self._exit_code: int | None = None
        self._quiet = 0.0
        self._keep, self._head_ends = 0, [0, 0]
        self._on_skip: Callable[[Channel, int], object] | None = None

    def keep_ends(self, size: int, on_skip: Callable[[Channel, int], object]) -> None:
        """From here on bring the first and the last `size` bytes of each channel, and not what is between them.

        Args:
            size: Bytes.
            on_skip: Told how many bytes were left out of which channel.
        """
        self._keep, self._on_skip = size, on_skip
        self._head_ends = [offset + size for offset in self._offsets]

    def keep_all(self) -> None:
        """Bring everything again."""
        self._keep, self._on_skip = 0, None

    def write(self, data: bytes) -> None:
        """Deliver bytes to the process. See `Stream`.

        Raises:
            EnvironmentStartError: The process could not be started.
            EnvironmentLostError: Whether they have been delivered cannot be known.
        """
        with self._writing:
            number = self._numbers + 1
            file = "" if self._fits(data) else f"{self._directory}.piece{number}"
            if file:
                with in_no_scope():  # what a command is sent has nothing to do with who may not wait for that
                    self._target.put_native(data, file)
            delivery = Delivery(number, data, file)
            # Where another thread waits for output already, that one brings it.
            can_read = self._reading.acquire(blocking=False)
            try:
                taken = self._deliver(delivery, self._look(FIRST_WAIT) if can_read else None)
            finally:
                if can_read:
                    self._reading.release()
            while not taken:  # the process reads more slowly than it is written to
                taken = self._deliver(delivery, None)
            self._numbers = number

    def _fits(self, data: bytes) -> bool:
        return self._target.has_base64 and len(data) <= SMALL_INPUT

    def _deliver(self, delivery: Delivery, look: Look | None) -> bool:
        """Deliver a piece of input, and return whether there was room for it."""
        if self._closing or self._ended or self._is_gone():
            self._ended = True
            raise BrokenPipeError
        text = exchange(self._directory, self._argv, delivery, look)
        lines = self._ask(text, FIRST_WAIT)
        if lines is None:
            raise self._target.lost("it gave no answer to a command, which may or may not have begun")
        if lines[0] == FAILED:
            raise EnvironmentStartError(f"no process can be kept in the target: {' '.join(lines[1:])[:500]}")
        if lines[0] == LOST:
            raise self._target.lost("a command got there in part")
        if lines[0] == GONE:
            self._ended = True
            raise BrokenPipeError
        self._argv = None
        if lines[0] == FULL:
            return False
        if look:
            self._take_or_end(lines)
        return True

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

    def _ask(self, text: str, wait: float) -> list[str] | None:
        """Return the lines of an answer, or None if there is none to be had."""
        for attempt in range(ATTEMPTS):
            try:
                result = self._target.run_harmless(text, wait + SLACK)
            except TerminalError:
                return None
            lines = result.output.splitlines()
            # What the service or its shell has to say comes before.
            first = next((index for index, line in enumerate(lines) if line.startswith("@@")), None)
            if first is not None and (lines[-1] == END or lines[first] in (GONE, LOST, FAILED, FULL)):
                return lines[first:]
            time.sleep(0.1 * 2**attempt)
        return None

    def _take_or_end(self, lines: list[str]) -> None:
        try:
            self._take(lines)
        except (TerminalError, ValueError):  # the process's files are gone, or a large piece of output cannot be had
            self._ended = True

    def _take(self, lines: list[str]) -> None:
        words = lines[0].split()
        if words[0] != ANSWER:
            return
        begins, ends = (int(words[2]), int(words[4])), (int(words[3]), int(words[5]))
        middle = lines.index(CHANNEL_2)
        inline = ("".join(lines[lines.index(CHANNEL_1) + 1 : middle]), "".join(lines[middle + 1 : -1]))
        brought = 0
        for index, channel in enumerate(Channel):
            begin, size = begins[index], ends[index] - begins[index]
            skipped = begin - self._offsets[index]
            if skipped > 0 and self._on_skip:
                self._on_skip(channel, skipped)
            data = self._brought(index + 1, begin, size, inline[index]) if size > 0 else b""
            self._offsets[index] = begin + len(data)
            brought += len(data)
            if data:
                self._chunks.append(Chunk(channel, data))
        complete = all(offset >= end for offset, end in zip(self._offsets, ends, strict=True))
        if words[1] == "1" and complete:
            self._ended = True
            self._exit_code = int(words[6]) if len(words) > 6 else None
        self._quiet = min(LONGEST_QUIET, self._quiet * 2 + 0.02) if 0 < brought < INLINE else 0.0

    def _brought(self, channel: int, begin: int, size: int, inline: str) -> bytes:
        if self._target.has_base64 and size <= INLINE:
            data = base64.b64decode(inline)
        else:
            size = min(size, PIECE)
            data = self._target.get_native(f"{self._directory}/part{channel}.{begin}.{size}")
        if len(data) != size:
            raise TerminalError("a piece of output is not all there")
        return data

    def read(self, timeout: float | None) -> Chunk | None:
        """Wait for bytes. See `Stream`.

        Without time to wait, only what is here is looked at: a look at the target would take a round trip.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._reading:
            while True:
                if self._chunks:
                    return self._chunks.popleft()
                if self._ended or self._closed or self._is_gone():
                    return Chunk(Channel.STDOUT, b"")
                if timeout == 0:
                    self._quiet = 0.0
                    return None
                left = WAIT if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    return None
                self._poll(min(WAIT, left))

    def _poll(self, wait: float) -> None:
        lines = self._ask(exchange(self._directory, self._argv, None, self._look(wait)), wait)
        self._argv = None
        if lines is None or lines[0] in (GONE, LOST, FAILED):
            self._ended = True
            return
        self._take_or_end(lines)

    def close_write(self) -> None:
        """Let the process see end of file. See `Stream`."""
        if not self._is_gone():
            with contextlib.suppress(TerminalError):
                self._target.run_harmless(closing_input(self._directory), SLACK)

    def resize(self, terminal: Terminal) -> None:
        """It has no terminal."""

    def exit_code(self, timeout: float) -> int | None:
        """Return how the process ended. See `Stream`. What it prints until then can be read, if it is little."""
        deadline = time.monotonic() + timeout
        if self._reading.acquire(timeout=max(0.0, timeout)):  # whoever reads meanwhile brings it too
            try:
                while not self._ended and not self._closed and (left := deadline - time.monotonic()) > 0:
                    self._poll(left)
                    if sum(len(chunk.data) for chunk in self._chunks) > _MOST_UNREAD:
                        self._chunks.clear()
            finally:
                self._reading.release()
        return self._exit_code

    def close(self) -> None:
        """Give up the stream; the process is killed. See `Stream`."""
        self._closing = True  # which lets go whoever waits for room
        with self._writing:
            if self._closed:
                return
            self._closed = True
            if self._argv is None and not self._is_gone() and not self._target.is_ending:
                with contextlib.suppress(TerminalError):
                    self._target.run_harmless(discarding(self._directory), SLACK)
