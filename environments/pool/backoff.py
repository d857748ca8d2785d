"""Starts that fail, and starts that are not yet due: what an error means, when to try again, and how fast to start."""

from __future__ import annotations

import errno
import math
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from enum import Enum

from environments.errors import (
    EnvironmentStartError,
    MissingExtraError,
    SettingsError,
    StartStoppedError,
    UnsupportedError,
)
from environments.settings import EnvironmentSettings
from environments.starting import StartLimits

FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0
"""Seconds until a start is tried again: the first time, and at the most."""

_BUSY_STATUS = frozenset({408, 425, 429, 502, 503, 504})
"""Answers of an overloaded HTTP service."""
_BUSY_ERRNO = frozenset(
    {
        errno.EAGAIN,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.ECONNRESET,
        errno.ETIMEDOUT,
    }
)
"""The system's numbers for what it has not enough of at the moment."""
_BUSY_WORDS = re.compile(
    r"too many|rate.?limit|resource.?exhausted|resource temporarily|no space left|try again|temporarily unavailable"
    r"|service unavailable|cannot allocate memory|out of memory|no thread can be started|quota|throttl"
    r"|server is overloaded|could not find an available|reading ssh protocol banner|max.?startups",
    re.IGNORECASE,
)
"""Words of overloaded engines and services, or of those with too little room."""


class Verdict(Enum):
    """The meaning of a failed start."""

    BUSY = "busy"
    """The engine refuses for now; it is asked again later."""
    WRONG = "wrong"
    """Every other start would fail in the same way."""
    CHANCE = "chance"
    """This one has failed, and others need not."""


def verdict(error: BaseException) -> Verdict:
    """Return the meaning of an error that a start has raised."""
    if isinstance(error, SettingsError | UnsupportedError | MissingExtraError):
        return Verdict.WRONG
    if any(_is_busy(each) for each in _chain(error)):
        return Verdict.BUSY
    if isinstance(error, EnvironmentStartError) and not isinstance(error, StartStoppedError):
        return Verdict.WRONG
    return Verdict.CHANCE


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Go through an error and its causes."""
    seen: set[int] = set()
    while error and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _is_busy(error: BaseException) -> bool:
    if any(getattr(error, name, None) in _BUSY_STATUS for name in ("status_code", "status")):
        return True
    if isinstance(error, OSError) and error.errno in _BUSY_ERRNO:
        return True
    return bool(_BUSY_WORDS.search(f"{type(error).__name__} {error}"))


def delay(refusals: int) -> float:
    """Return seconds until the next try: twice as many each time, with jitter, so that not all try at once.

    Args:
        refusals: How often in a row it was refused, from 1.
    """
    longest = min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(refusals - 1, 16))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - it keeps no secret


class StartPlace:
    """A place where targets are started, such as one engine, for all pools of this process. Used on the loop thread."""

    def __init__(self) -> None:
        self._under_way = 0
        self._last = -math.inf
        self._refusals = 0
        self._of_one_wave = 0
        """Starts under way that had begun before it refused: that it refuses them, too, is no news."""
        self._closed_until = -math.inf
        self._watchers: set[Callable[[], object]] = set()

    @staticmethod
    def of(settings: EnvironmentSettings, name: str) -> StartPlace:
        """Return the place of these settings' targets; there is one for each engine, host or service."""
        return _places.setdefault((settings.env, settings.over or "", name), StartPlace())

    def begin(self, limits: StartLimits) -> float:
        """Begin a start if it may begin now; `end` is to follow.

        Args:
            limits: Those of the pool that asks.

        Returns:
            0 if it has begun; else seconds until it may, infinity if another start has to end first.
        """
        if limits.at_once is not None and self._under_way >= limits.at_once:
            return math.inf
        now = time.monotonic()
        free = max(self._closed_until, self._last + 1 / limits.per_second if limits.per_second else -math.inf)
        if now < free:
            return free - now
        # After a refusal, one start finds out whether it still refuses.
        if self._refusals and self._under_way:
            return math.inf
        self._last = now
        self._under_way += 1
        return 0.0

    def end(self, refused: bool | None) -> int:
        """End a start.

        Args:
            refused: Whether the place was overloaded; None where that is not known.

        Returns:
            How often in a row it has refused.
        """
        self._under_way -= 1
        if self._of_one_wave:
            self._of_one_wave -= 1
        elif refused:
            self._of_one_wave = self._under_way
            self._refusals += 1
            self._closed_until = time.monotonic() + delay(self._refusals)
        if refused is False:
            self._refusals = 0
        for watcher in list(self._watchers):
            watcher()
        return self._refusals

    def watch(self, callback: Callable[[], object]) -> None:
        """Have `callback` called whenever a start has ended, until `unwatch`."""
        self._watchers.add(callback)

    def unwatch(self, callback: Callable[[], object]) -> None:
        """Call it no more."""
        self._watchers.discard(callback)


_places: dict[tuple[str, str, str], StartPlace] = {}
os.register_at_fork(after_in_child=_places.clear)  # starts that are under way are the parent's
