"""What was called on a stand-in, and what is to go wrong with the next calls."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from enum import Enum


class Fault(Enum):
    """What can happen to a call. Each server says it in its service's own words."""

    UNAVAILABLE = "unavailable"
    """The service is away for a moment: UNAVAILABLE, or 503. The call is not carried out."""
    UNAUTHENTICATED = "unauthenticated"
    """The credentials are not taken: UNAUTHENTICATED, or 401."""
    RATE_LIMITED = "rate limited"
    """Too many calls: RESOURCE_EXHAUSTED, or 429. The call is not carried out."""
    BAD_GATEWAY = "bad gateway"
    """A proxy lost the service's answer: INTERNAL, or 502. The call is not carried out."""
    DROPPED = "dropped"
    """The call is carried out, and the connection breaks before or under its answer."""
    SWALLOWED = "swallowed"
    """The call is answered as if it had been carried out, and is not."""
    SLOW = "slow"
    """The answer takes `SLOW_SECONDS`."""
    HELD = "held"
    """The call waits until `Ledger.release`, and is then carried out, whether anybody waits for its answer or not."""
    SANDBOX_DIES = "sandbox dies"
    """The sandbox that is called ends, with everything in it."""


SLOW_SECONDS = 1.5


class Ledger:
    """Counts calls by name, and hands out the faults that were ordered for them.

    Attributes:
        calls: How often each call came.
        unimplemented: How often each call came that the stand-in lacks: a test is worth nothing if there is one.
    """

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.unimplemented: Counter[str] = Counter()
        self._faults: dict[str, deque[Fault]] = {}
        self._released = asyncio.Event()

    def order(self, call: str, fault: Fault, times: int = 1) -> None:
        """Let the next calls of this name fail in this way."""
        if fault is Fault.HELD and self._released.is_set():
            self._released = asyncio.Event()
        self._faults.setdefault(call, deque()).extend([fault] * times)

    def clear(self) -> None:
        """Forget the faults that are still to come."""
        self._faults.clear()

    def note(self, call: str) -> Fault | None:
        """Count a call, and return what is to go wrong with it."""
        self.calls[call] += 1
        waiting = self._faults.get(call)
        return waiting.popleft() if waiting else None

    def lacks(self, call: str) -> None:
        """Note a call that is not implemented."""
        self.unimplemented[call] += 1

    async def hold(self) -> None:
        """Wait for `release`, which may have come since the call was counted."""
        await self._released.wait()

    def release(self) -> None:
        """Let all calls go on that are held."""
        self._released.set()
