"""Processes of this machine that belong to an environment, found without a shell.

They are known by a marker among their variables, or by a number that is their limit of file locks, see `brand_of`.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from collections.abc import Collection

from environments.shell.dialect.commands import BRANDS, brand_of

_PIECE = 64 * 1024
_LOCKS = 10
"""Linux's number of the limit of file locks."""
ROW_SECONDS = 1.0
"""Seconds in which the process ids, of which there are 32,768 or more, are not given out all."""
NEWEST = 64
"""Number of the newest ids that are searched for processes that fork and exit without end."""
EMPTY_HUNTS, HUNT_PAUSE = 3, 0.002
"""Number of searches that must find none, and the seconds between them."""
HUNT_SECONDS = 2.0
"""Seconds for all searches."""
LOOKS = 2
"""Number of searches that must find none: one may miss a process that forks and exits."""


def none_has(marker: str, but: Collection[int] = (), environment: str | None = None) -> bool:
    """Return True if certainly no process that this user may read has a marker among its variables.

    Args:
        marker: The value of the marker variable, or a part of it; any of several, if these stand in lines.
        but: Ids of processes to leave out.
        environment: The id of an environment; then no process may have one of its numbers either.
    """
    wanted, others = marker.encode().split(b"\n"), {str(pid) for pid in but}
    brand = brand_of(environment) // BRANDS if environment else None
    return all(_finds_none(wanted, others, brand) for _ in range(LOOKS))


def _finds_none(wanted: list[bytes], others: Collection[str], brand: int | None) -> bool:
    try:
        if not _environment_of("self"):
            return False  # without /proc nothing is certain
        pids = _ids()
    except OSError:
        return False
    return not any(_bears(pid, wanted) or (brand and _has_brand(pid, brand)) for pid in pids if pid not in others)


class NewProcesses:
    """The processes of this machine that were started after this was made.

    Ids are given out in a row, so that those in between are searched; after a second, when the row may have begun
    anew, all ids.

    Args:
        brand: The number of the processes; None if they have none.
    """

    def __init__(self, brand: int | None) -> None:
        self._brand = brand
        self._began, self._last = time.monotonic(), _last_id()

    def may_have(self, marker: str) -> bool:
        """Return whether one of them may have the number, or a marker among its variables, any of several in lines."""
        wanted = marker.encode().split(b"\n")
        for _ in range(LOOKS):
            last = _last_id()
            if not self._last or not last:
                return True
            is_row = self._last <= last and time.monotonic() - self._began < ROW_SECONDS
            ids = map(str, range(self._last + 1, last + 1)) if is_row else _ids()
            if any((_bears(pid, wanted) or self._brand in _lock_limits(pid)) and _lives(pid) for pid in ids):
                return True
        return False


def kill_new(marker: str, brand: str | None) -> None:
    """Send KILL to processes that fork and exit without end. A shell does not find them, as they are always new.

    Args:
        marker: The value of the marker variable, or a part of it; any of several, if these stand in lines.
        brand: The number of the processes. A pattern of numbers is passed over: shells have one, too.
    """
    wanted = marker.encode().split(b"\n")
    number = int(brand) if brand and brand.isdigit() else None
    deadline, empty = time.monotonic() + HUNT_SECONDS, 0
    while empty < EMPTY_HUNTS and time.monotonic() < deadline:
        last = _last_id()
        found = False
        for pid in range(last, max(1, last - NEWEST), -1):
            if (_bears(str(pid), wanted) or number in _lock_limits(str(pid))) and _lives(str(pid)):
                found = True
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        empty = 0 if found else empty + 1
        if not found:
            time.sleep(HUNT_PAUSE)


def _last_id() -> int:
    """Return the id that was given out last; 0 without /proc."""
    try:
        with open("/proc/loadavg", "rb") as file:
            return int(file.read().split()[4])
    except (OSError, IndexError, ValueError):
        return 0


def _ids() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208  # commands need no pathlib


def _has_brand(pid: str, brand: int) -> bool:
    return any(limit // BRANDS == brand for limit in _lock_limits(pid))


def _lock_limits(pid: str) -> tuple[int, ...]:
    try:
        return resource.prlimit(int(pid), _LOCKS)
    except OSError:  # it has ended, or is another user's
        return ()


def _bears(pid: str, wanted: list[bytes]) -> bool:
    try:
        environment = _environment_of(pid)
    except OSError:  # it has ended, or is another user's
        return False
    return any(each in environment for each in wanted)


def _lives(pid: str) -> bool:
    """Whether a process has not ended. One that has keeps its limits until its parent has reaped it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return not file.read().rpartition(b") ")[2].startswith((b"Z", b"X"))
    except OSError:
        return False


def _environment_of(pid: str) -> bytes:
    descriptor = os.open(f"/proc/{pid}/environ", os.O_RDONLY)
    try:
        data = piece = os.read(descriptor, _PIECE)
        while len(piece) == _PIECE:
            piece = os.read(descriptor, _PIECE)
            data += piece
        return data
    finally:
        os.close(descriptor)
