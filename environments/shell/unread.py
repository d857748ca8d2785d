"""Output of a process in the background, which waits to be read or searched."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import time
from functools import partial
from typing import Protocol

from environments.cancellation import check_scope, ended_in_scope
from environments.loop import current, in_worker
from environments.output import Channel, incomplete_bytes
from environments.shell.stream import Stream

RESCAN = 0.25
"""By what part output must have grown before a pattern looks at all of it again while more keeps coming."""


class Search(Protocol):
    """Looks for something in output that grows. It is told all that there is, and how many bytes came before that."""

    def end_in(self, data: bytearray, before: int, *, at_once: bool) -> int | None:
        """Return up to where `data` has what is looked for with what stands before it; None if it is not found.

        Args:
            data: The output that was not read yet.
            before: How many bytes there have been before it. They are not in it any more.
            at_once: Whether to look in any case, as there may be no other time.
        """

    @property
    def patience(self) -> float:
        """Seconds after which it is worth another look although nothing has come; infinite if it is not."""


class TextSearch:
    """Looks for text. What was looked at once is not looked at again.

    Args:
        text: The text.
    """

    patience = math.inf

    def __init__(self, text: str) -> None:
        self._wanted = text.encode("utf-8", "surrogateescape")
        self._seen = 0

    def end_in(self, data: bytearray, before: int, *, at_once: bool) -> int | None:
        """Look for it, see `Search`."""
        found = data.find(self._wanted, max(0, self._seen - before - len(self._wanted) + 1))
        self._seen = before + len(data)
        return None if found < 0 else found + len(self._wanted)


class PatternSearch:
    """Looks for a match of a pattern, which may begin and end anywhere in what there is.

    So all of it is looked at again when something has come. While much comes quickly that is put off until it has grown
    by a good part, or as much time has gone by as the last look took: it then takes linear time.

    Args:
        pattern: The pattern.
    """

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self._seen = -1
        self._next_size = 0.0
        self._next_time = 0.0

    @property
    def patience(self) -> float:
        """Seconds until the next look that is due, see `Search`."""
        return max(0.0, self._next_time - time.monotonic())

    def end_in(self, data: bytearray, before: int, *, at_once: bool) -> int | None:
        """Look for a match, see `Search`."""
        size, now = before + len(data), time.monotonic()
        if size == self._seen and not at_once:  # looked at already
            self._next_time = math.inf
            return None
        if not at_once and size < self._next_size and now < self._next_time:
            return None
        self._seen = size
        # Each byte that is no text is a character of its own, so that it is known how many bytes a match has.
        text = data[: len(data) - incomplete_bytes(bytes(data[-4:]))].decode("utf-8", "surrogateescape")
        found = self._pattern.search(text)
        self._next_size = size + RESCAN * len(data)
        self._next_time = 2 * time.monotonic() - now
        return len(text[: found.end()].encode("utf-8", "surrogateescape")) if found else None


def search_for(wanted: object) -> Search:
    """Return what looks for text, or for a match of a pattern.

    Raises:
        TypeError: It is neither.
        ValueError: It is empty text.
    """
    if isinstance(wanted, str):
        if not wanted:
            raise ValueError("the expected text is empty; give what is to be waited for")
        return TextSearch(wanted)
    if isinstance(wanted, re.Pattern) and isinstance(wanted.pattern, str):
        return PatternSearch(wanted)
    raise TypeError(f"what is expected is of type {type(wanted).__name__}; give text, or a compiled pattern of text")


class UnreadOutput:
    """Output that waits to be read. Above its limit the oldest is dropped, so that a command never has to wait.

    It is used on the loop thread. While a search waits, the stream is paused at the limit instead, until that has
    looked.

    Args:
        limit: That limit in bytes.
    """

    def __init__(self, limit: int) -> None:
        self.stream: Stream | None = None
        """The stream that the output comes on."""
        self._limit = limit
        self._data = bytearray()
        self._before = 0
        self._searches = 0
        self._is_paused = False
        self._changed = asyncio.Event()
        self._has_ended = False

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes of output, see `Sink`."""
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
        """Note that nothing more comes."""
        self._has_ended = True
        self._wake()

    def _wake(self) -> None:
        """Have every search look again. Each has an event from before its last look, so that it misses nothing."""
        self._changed.set()
        self._changed = asyncio.Event()

    def take(self, final: bool) -> str:
        """Return what has come since the last call. A character that is not complete yet stays, unless `final`."""
        size = len(self._data) - (0 if final else incomplete_bytes(bytes(self._data[-4:])))
        return self._remove(size).decode("utf-8", "replace")

    async def take_to(self, search: Search, seconds: float) -> str:
        """Return what has come since the last call up to and with what a search finds, and wait for that.

        Args:
            search: The search. It looks on a worker thread, as a pattern may take its time.
            seconds: How long to wait; infinite for as long as anything may come.

        Raises:
            TimeoutError: It did not come in time. All is then left as it was.
            EOFError: Nothing more comes. The same holds.
            CallCancelledError: The scope of the caller was cancelled.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        self._searches += 1
        try:
            with ended_in_scope(lambda: current().soon(self._wake)):
                while True:
                    check_scope()
                    changed = self._changed
                    left = deadline - loop.time()
                    is_last = self._has_ended or left <= 0
                    if (found := await self._look(search, at_once=is_last or self._is_paused)) is not None:
                        return found
                    if is_last:
                        raise EOFError if self._has_ended else TimeoutError
                    if not changed.is_set():  # else what has come during the look would be dropped before the next
                        self._resume()
                    with contextlib.suppress(TimeoutError):
                        wait = min(left, search.patience)
                        async with asyncio.timeout(None if wait == math.inf else wait):
                            await changed.wait()
        finally:
            self._searches -= 1
            self._resume()

    async def _look(self, search: Search, *, at_once: bool) -> str | None:
        """Take what a search finds; None if it finds nothing."""
        while True:
            before, data = self._before, bytearray(self._data)
            end = await in_worker(partial(search.end_in, data, before, at_once=at_once))
            if end is None:
                return None
            if before == self._before:  # nothing was read meanwhile
                return self._remove(end).decode("utf-8", "replace")

    def tail(self, size: int) -> str:
        """Return the last bytes of what waits to be read, and leave them there."""
        return self._data[-size:].decode("utf-8", "replace")

    def _remove(self, size: int) -> bytes:
        """Remove so many bytes of what came first, if there are any, and return them."""
        removed = bytes(self._data[: max(0, size)])
        del self._data[: len(removed)]
        self._before += len(removed)
        return removed
