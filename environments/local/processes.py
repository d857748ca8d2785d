"""Processes of this machine that belong to an environment, found without a shell.

They are known by a marker among their variables, or by a number that is their limit of file locks, see `brand_of`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import time
from collections.abc import Collection, Iterable

from environments.loop import in_worker
from environments.shell.dialect.commands import BRANDS, brand_of

_PIECE = 64 * 1024
_LOCKS = 10
"""Linux's number of the limit of file locks."""
ROW_SECONDS = 1.0
"""Seconds in which the process ids, of which there are 32,768 or more, are not given out all."""
NEWEST, RECENT = 64, 512
"""Number of the newest ids that are searched again for processes that fork and exit. And how many there are at first:
one that waits for a processor may have an older id."""
EMPTY_HUNTS, HUNT_PAUSE = 12, 0.001
"""Number of searches that must find none, and the seconds between them."""
HUNT_SECONDS = 2.0
"""Seconds for all searches."""
LOOKS = 2
"""Number of looks that must find none."""
LEAST_ROUNDS, MOST_ROUNDS = 4, 20
"""Number of times that a look goes through the newest ids: more than the least while processes are started."""


class Search:
    """A search for processes of this machine.

    Args:
        markers: Values of the marker variable, or parts of it, one in a line.
        numbers: The numbers that processes may have in place of a marker.
        but: Ids of processes to leave out.
        since: The last id that was given out before the processes were started; 0 is not known.
        began: When that was, on the monotonic clock.
    """

    def __init__(
        self, markers: str, numbers: range, but: Collection[int] = (), since: int = 0, began: float = 0.0
    ) -> None:
        self.markers = markers.encode().split()
        self.numbers = numbers
        self.but = but
        self.since = since
        self.began = began
        self.is_certain = True
        """False once a process was found, or some may not have been seen."""

    def is_in_row(self, last: int) -> bool:
        """Return whether the processes have ids behind `since`, up to the last one. Later, ids may begin anew."""
        return 0 < self.since <= last and time.monotonic() - self.began < ROW_SECONDS

    def matches(self, pid: int, variables: bytes, limits: Collection[int]) -> bool:
        """Return whether a process is one of them."""
        if pid in self.but:
            return False
        return any(each in variables for each in self.markers) or any(each in self.numbers for each in limits)


class _Looks:
    """Looks through /proc. All that need one at the same time share the next that begins. On the loop thread."""

    def __init__(self) -> None:
        self._waiting: set[Search] = set()
        self._turn = asyncio.Lock()

    async def look(self, search: Search) -> None:
        """Wait for the end of a look that has begun after this call."""
        self._waiting.add(search)
        try:
            async with self._turn:
                if search in self._waiting:
                    together = list(self._waiting)
                    await in_worker(_look, together)
                    self._waiting.difference_update(together)  # not if this was cancelled: the next one looks for them
        finally:
            self._waiting.discard(search)


_looks = _Looks()


def _forget() -> None:
    global _looks  # noqa: PLW0603  # a forked child has a loop of its own
    _looks = _Looks()


os.register_at_fork(after_in_child=_forget)


async def finds_none(search: Search) -> bool:
    """Return True if there is certainly no such process that this user may read."""
    for _ in range(LOOKS):
        await _looks.look(search)
        if not search.is_certain:
            return False
    return True


def numbers_of(environment: str) -> range:
    """Return the numbers of all processes of an environment."""
    first = brand_of(environment) // BRANDS * BRANDS
    return range(first, first + BRANDS)


def _look(searches: list[Search]) -> None:
    """Look at each process, also those started meanwhile, and take the certainty from each search that finds one.

    A process that forks and exits has another id by the time that its own is looked at, and one that is being forked
    has an id before it can be seen, so that the newest are looked at again.
    """
    last = _last_id()
    try:
        is_readable = bool(_environment_of("self"))
        are_in_row = all(search.is_in_row(last) for search in searches)
        first = min(search.since for search in searches) if are_in_row else 0
        ids: Iterable[int] = range(last, first, -1) if are_in_row else _ids()
    except OSError:
        is_readable = False
    if not is_readable:  # without /proc nothing is certain
        for search in searches:
            search.is_certain = False
        return
    for number in range(1, MOST_ROUNDS + 1):
        for pid in ids:
            variables, limits = _variables(pid), _lock_limits(pid)
            for search in searches if variables or limits else ():
                if search.is_certain and search.matches(pid, variables, limits) and _lives(pid):
                    search.is_certain = False
        before, last = last, _last_id()
        none_came = number >= LEAST_ROUNDS and last == before
        if none_came or not any(search.is_certain for search in searches):
            break
        ids = range(last, max(first, min(before, last) - NEWEST), -1)


class NewProcesses:
    """The processes of this machine that were started after this was made.

    Args:
        brand: The number of the processes; None if they have none.
    """

    def __init__(self, brand: int | None) -> None:
        self._numbers = _one(brand)
        self._began, self._last = time.monotonic(), _last_id()

    async def may_have(self, marker: str) -> bool:
        """Return whether one of them may have the number, or a marker among its variables, any of several in lines."""
        return not await finds_none(Search(marker, self._numbers, since=self._last, began=self._began))


def kill_new(marker: str, brand: str | None) -> None:
    """Send KILL to processes that fork and exit without end. A shell does not find them, as they are always new.

    Args:
        marker: The value of the marker variable, or a part of it; any of several, if these stand in lines.
        brand: The number of the processes. A pattern of numbers is passed over: shells have one, too.
    """
    search = Search(marker, _one(int(brand) if brand and brand.isdigit() else None))
    deadline, empty = time.monotonic() + HUNT_SECONDS, 0
    while empty < EMPTY_HUNTS and time.monotonic() < deadline:
        last = _last_id()
        found = False
        for pid in range(last, max(1, last - (NEWEST if empty else RECENT)), -1):
            # The number first, which is one call of the system: such a process may end before the next.
            is_one = search.matches(pid, b"", _lock_limits(pid)) or search.matches(pid, _variables(pid), ())
            if is_one and _lives(pid):
                found = True
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        empty = 0 if found else empty + 1
        if not found:
            time.sleep(HUNT_PAUSE)


def _one(number: int | None) -> range:
    return range(0) if number is None else range(number, number + 1)


def _last_id() -> int:
    """Return the id that was given out last; 0 without /proc."""
    try:
        with open("/proc/loadavg", "rb") as file:
            return int(file.read().split()[4])
    except (OSError, IndexError, ValueError):
        return 0


def _ids() -> Iterable[int]:
    return map(int, filter(str.isdigit, os.listdir("/proc")))  # noqa: PTH208  # commands need no pathlib


def _lock_limits(pid: int) -> tuple[int, ...]:
    try:
        return resource.prlimit(pid, _LOCKS)
    except OSError:  # it has ended, or is another user's
        return ()


def _variables(pid: int) -> bytes:
    try:
        return _environment_of(pid)
    except OSError:  # it has ended, or is another user's
        return b""


def _lives(pid: int) -> bool:
    """Return whether a process has not ended. One that has keeps its limits until its parent has reaped it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, *fields = file.read().rpartition(b") ")[2].split()
    except (OSError, ValueError):
        return False
    return state not in (b"Z", b"X") or fields[16] > b"1"  # its first thread may have ended before the others


def _environment_of(pid: int | str) -> bytes:
    descriptor = os.open(f"/proc/{pid}/environ", os.O_RDONLY)
    try:
        data = piece = os.read(descriptor, _PIECE)
        while len(piece) == _PIECE:
            piece = os.read(descriptor, _PIECE)
            data += piece
        return data
    finally:
        os.close(descriptor)
