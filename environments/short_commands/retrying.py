"""Calls to a service that are made again while it is away for a moment."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from environments.log import logger

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds in which a call is tried again. One that comes back sooner waits twice as long each time."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0

log = logger(__name__)


class Retrying:
    """Makes calls to one service until they succeed, or fail for good.

    Args:
        service: Its name, for the log.
        may_pass: Returns whether an error may not come any more a moment later.
        reason: Returns the words of an error.
    """

    def __init__(
        self, service: str, may_pass: Callable[[Exception], bool], reason: Callable[[BaseException], str]
    ) -> None:
        self.service, self.may_pass, self.reason = service, may_pass, reason

    async def __call__(self, call: Callable[[], Awaitable[T]], what: str) -> T:
        """Return what a call returns. Raises what it does in the end.

        Args:
            call: What to do. It must be harmless to do it twice.
            what: What could not be done, for the log.
        """
        attempts = self.attempts(what)
        while True:
            try:
                return await call()
            except Exception as error:
                await attempts.failed(error)

    def attempts(self, what: str) -> Attempts:
        """Return what counts the attempts of one call, whose errors the caller handles."""
        return Attempts(self, what)


class Attempts:
    """How long to wait before the next attempt, and when to give up."""

    def __init__(self, retrying: Retrying, what: str) -> None:
        self._retrying, self._what = retrying, what
        self.reset()

    def reset(self) -> None:
        """Begin anew, after a success."""
        self._deadline, self._pause = math.inf, _FIRST_PAUSE

    async def failed(self, error: Exception) -> None:
        """Sleep until the next attempt. The error is raised if it will not pass, or there was patience enough."""
        now = time.monotonic()
        self._deadline = min(self._deadline, now + PATIENCE)
        if not self._retrying.may_pass(error) or now + self._pause > self._deadline:
            raise error
        log.info("%s: %s, and it is tried again: %s", self._retrying.service, self._what, self._retrying.reason(error))
        pause, self._pause = self._pause, min(self._pause * 2, _LONGEST_PAUSE)
        await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - many who failed should not come back together
