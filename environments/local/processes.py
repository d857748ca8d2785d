"""Search for an environment's processes on this machine without a shell; also the end of a fork bomb.

A process is identified by the marker in its environment variables, or by its limit of file locks, see `brand_of`.
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
"""Linux's number of RLIMIT_LOCKS."""
ROW_SECONDS = 1.0
"""Seconds in which the kernel cannot give out all of its 32,768 or more process ids."""
NEWEST, RECENT = 64, 512
"""Number of the newest process ids to scan again for processes that fork and exit; and the number in the first scan,
since a process that waits for a processor may have an older id."""
EMPTY_SEARCHES, SEARCH_PAUSE = 12, 0.001
"""Number of scans in a row that must find no process, and the seconds between them."""
SEARCH_SECONDS = 2.0
"""Seconds for all scans."""
SCANS = 2
"""Number of scans in a row that must find no process."""
MIN_ROUNDS, MAX_ROUNDS = 4, 20
"""Rounds of a scan over the newest ids: the minimum, and the maximum while processes are being started."""


class ProcessSearch:
    """A search for processes of this machine.

    Args:
        markers: Values of the marker variable, or parts of a value; a marker a line.
        brands: The brands of processes without a marker.
        exclude: Process ids to exclude.
        since: The last id given out before the start of the processes; 0 is unknown.
        began: Time of the start, on the monotonic clock.
    """

    def __init__(
        self, markers: str, brands: range, exclude: Collection[int] = (), since: int = 0, began: float = 0.0
    ) -> None:
        self.markers = markers.encode().split()
        self.brands = brands
        self.exclude = exclude
        self.since = since
        self.began = began
        self.is_certain = True
        """False once a process was found, or may have been missed."""

    def is_in_row(self, last: int) -> bool:
        """Return True if the processes have ids from `since` up to the last id. Later, ids may start over."""
        return 0 < self.since <= last and time.monotonic() - self.began < ROW_SECONDS

    def matches(self, pid: int, variables: bytes, limits: Collection[int]) -> bool:
        """Return True if a process matches."""
        if pid in self.exclude:
            return False
        return any(each in variables for each in self.markers) or any(each in self.brands for each in limits)


class _Scans:
    """Scans of /proc. Concurrent searches share the next scan. Used on the loop thread."""

    def __init__(self) -> None:
        self._waiting: set[ProcessSearch] = set()
        self._turn = asyncio.Lock()

    async def scan(self, search: ProcessSearch) -> None:
        """Wait for the end of a scan begun after this call."""
        self._waiting.add(search)
        try:
            async with self._turn:
                if search in self._waiting:
                    searches = list(self._waiting)
                    await in_worker(_scan, searches)
                    self._waiting.difference_update(searches)  # skipped if cancelled: the next scan serves them
        finally:
            self._waiting.discard(search)


_scans = _Scans()


def _forget() -> None:
    global _scans  # noqa: PLW0603  # a forked child has a loop of its own
    _scans = _Scans()


os.register_at_fork(after_in_child=_forget)


async def finds_none(search: ProcessSearch) -> bool:
    """Return True if there is certainly no such process, as far as this user may read."""
    for _ in range(SCANS):
        await _scans.scan(search)
        if not search.is_certain:
            return False
    return True


def brands_of(environment: str) -> range:
    """Return the brands of all processes of an environment."""
    first = brand_of(environment) // BRANDS * BRANDS
    return range(first, first + BRANDS)


def _scan(searches: list[ProcessSearch]) -> None:
    """Scan all processes, also those started meanwhile. A search with a match is no longer certain.

    A process that forks and exits has another id by the time of the read. A process in `fork` has an id before it is
    visible. So the newest ids are scanned again.
    """
    last = _last_id()
    try:
        is_readable = bool(_environment_of("self"))
        are_in_row = all(search.is_in_row(last) for search in searches)
        first = min(search.since for search in searches) if are_in_row else 0
        ids: Iterable[int] = range(last, first, -1) if are_in_row else _ids()
    except OSError:
        is_readable = False
    if not is_readable:  # without /proc no search is certain
        for search in searches:
            search.is_certain = False
        return
    for number in range(1, MAX_ROUNDS + 1):
        for pid in ids:
            variables, limits = _variables(pid), _lock_limits(pid)
            for search in searches if variables or limits else ():
                if search.is_certain and search.matches(pid, variables, limits) and _is_alive(pid):
                    search.is_certain = False
        before, last = last, _last_id()
        none_came = number >= MIN_ROUNDS and last == before
        if none_came or not any(search.is_certain for search in searches):
            break
        ids = range(last, max(first, min(before, last) - NEWEST), -1)


class NewProcesses:
    """Processes of this machine started after the creation of this object.

    Args:
        brand: The brand of the processes; None without a brand.
    """

    def __init__(self, brand: int | None) -> None:
        self._brands = _single(brand)
        self._began, self._last = time.monotonic(), _last_id()

    async def may_have(self, marker: str) -> bool:
        """Return True if there may be a process with the brand, or with a marker (a marker a line)."""
        return not await finds_none(ProcessSearch(marker, self._brands, since=self._last, began=self._began))


def kill_new(marker: str, brand: str | None) -> None:
    """Kill processes that fork and exit (a fork bomb). A shell cannot find them, as they are always new.

    Args:
        marker: Values of the marker variable, or parts of a value; a marker a line.
        brand: The brand of the processes. A pattern of brands is ignored: shells have a brand, too.
    """
    search = ProcessSearch(marker, _single(int(brand) if brand and brand.isdigit() else None))
    deadline, empty = time.monotonic() + SEARCH_SECONDS, 0
    while empty < EMPTY_SEARCHES and time.monotonic() < deadline:
        last = _last_id()
        found = False
        for pid in range(last, max(1, last - (NEWEST if empty else RECENT)), -1):
            # The brand first, as it takes one system call: such a process may end before the next call.
            is_match = search.matches(pid, b"", _lock_limits(pid)) or search.matches(pid, _variables(pid), ())
            if is_match and _is_alive(pid):
                found = True
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        empty = 0 if found else empty + 1
        if not found:
            time.sleep(SEARCH_PAUSE)


def _single(number: int | None) -> range:
    return range(0) if number is None else range(number, number + 1)


def _last_id() -> int:
    """Return the last process id given out; 0 without /proc."""
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
    except OSError:  # ended, or another user's
        return ()


def _variables(pid: int) -> bytes:
    try:
        return _environment_of(pid)
    except OSError:  # ended, or another user's
        return b""


def _is_alive(pid: int) -> bool:
    """Return True if a process has not ended. An ended process keeps its limits until reaped."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, *fields = file.read().rpartition(b") ")[2].split()
    except (OSError, ValueError):
        return False
    return state not in (b"Z", b"X") or fields[16] > b"1"  # the first thread may end before the others


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
