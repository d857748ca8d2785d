"""Counts calls of a stand-in, and injects faults into the next calls."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from enum import Enum


class Fault(Enum):
    """A fault of a call. Each server reports faults in its service's form."""

    UNAVAILABLE = "unavailable"
    """The service is down for a moment: UNAVAILABLE, or 503. The call is not carried out."""
    UNAUTHENTICATED = "unauthenticated"
    """The credentials are refused: UNAUTHENTICATED, or 401."""
    RATE_LIMITED = "rate limited"
    """Too many calls: RESOURCE_EXHAUSTED, or 429. The call is not carried out."""
    BAD_GATEWAY = "bad gateway"
    """A proxy lost the service's response: INTERNAL, or 502. The call is not carried out."""
    DROPPED = "dropped"
    """The call is carried out, and the connection breaks before the end of the response."""
    SWALLOWED = "swallowed"
    """The call succeeds without being carried out."""
    SLOW = "slow"
    """The response takes `SLOW_SECONDS`."""
    HELD = "held"
    """The call waits for `Ledger.release`, and is then carried out, also if the client has left."""
    SANDBOX_DIES = "sandbox dies"
    """The sandbox of the call ends, with everything in it."""


SLOW_SECONDS = 1.5


class Ledger:
    """Counts calls by name, and holds the pending faults.

    Attributes:
        calls: Number of each call.
        unimplemented: Number of each call without an implementation. Any such call makes a test worthless.
    """

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.unimplemented: Counter[str] = Counter()
        self._faults: dict[str, deque[Fault]] = {}
        self._released = asyncio.Event()

    def order(self, call: str, fault: Fault, times: int = 1) -> None:
        """Inject a fault into the next calls of a name."""
        if fault is Fault.HELD and self._released.is_set():
            self._released = asyncio.Event()
        self._faults.setdefault(call, deque()).extend([fault] * times)

    def clear(self) -> None:
        """Remove the pending faults."""
        self._faults.clear()

    def note(self, call: str) -> Fault | None:
        """Count a call, and return its fault, if any."""
        self.calls[call] += 1
        waiting = self._faults.get(call)
        return waiting.popleft() if waiting else None

    def lacks(self, call: str) -> None:
        """Count an unimplemented call."""
        self.unimplemented[call] += 1

    async def hold(self) -> None:
        """Wait for `release`. It may have come since the call was counted."""
        await self._released.wait()

    def release(self) -> None:
        """Continue the held calls."""
        self._released.set()
