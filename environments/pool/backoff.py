"""Backoff for failed starts: meaning of errors, retry delays with jitter, and rate limits by place."""

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
"""Seconds until the first retry, and maximum seconds between retries."""

_BUSY_STATUS = frozenset({408, 425, 429, 502, 503, 504})
"""HTTP statuses of an overloaded service."""
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
"""Error numbers for exhausted resources."""
_BUSY_WORDS = re.compile(
    r"too many|rate.?limit|resource.?exhausted|resource temporarily|no space left|try again|temporarily unavailable"
    r"|service unavailable|cannot allocate memory|out of memory|no thread can be started|quota|throttl"
    r"|server is overloaded|could not find an available|reading ssh protocol banner|max.?startups",
    re.IGNORECASE,
)
"""Messages of overloaded engines and services."""


class Verdict(Enum):
    """The meaning of a failed start."""

    BUSY = "busy"
    """The engine is overloaded; retry later."""
    PERMANENT = "permanent"
    """All other starts would fail in the same way."""
    TRANSIENT = "transient"
    """Other starts may succeed."""


def verdict(error: BaseException) -> Verdict:
    """Classify the error of a start."""
    if isinstance(error, SettingsError | UnsupportedError | MissingExtraError):
        return Verdict.PERMANENT
    if any(_is_busy(each) for each in _chain(error)):
        return Verdict.BUSY
    if isinstance(error, EnvironmentStartError) and not isinstance(error, StartStoppedError):
        return Verdict.PERMANENT
    return Verdict.TRANSIENT


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes."""
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
    """Return the backoff in seconds: doubled each time, with jitter, so that retries spread out.

    Args:
        refusals: Number of consecutive refusals, from 1.
    """
    longest = min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(refusals - 1, 16))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - not for secrets


class StartPlace:
    """Start limits of a place, such as an engine, shared by all pools of this process. Used on the loop thread."""

    def __init__(self) -> None:
        self._under_way = 0
        self._last = -math.inf
        self._refusals = 0
        self._begun_before_refusal = 0
        """Starts begun before the first refusal: their refusals are not counted again."""
        self._closed_until = -math.inf
        self._watchers: set[Callable[[], object]] = set()

    @staticmethod
    def of(settings: EnvironmentSettings, name: str) -> StartPlace:
        """Return the place of the settings' targets: one for each engine, host or service."""
        return _places.setdefault((settings.env, settings.over or "", name), StartPlace())

    def begin(self, limits: StartLimits) -> float:
        """Begin a start if allowed now. Call `end` afterwards.

        Args:
            limits: Limits of the pool.

        Returns:
            0 if begun; otherwise seconds to wait, or infinity until another start ends.
        """
        if limits.at_once is not None and self._under_way >= limits.at_once:
            return math.inf
        now = time.monotonic()
        free = max(self._closed_until, self._last + 1 / limits.per_second if limits.per_second else -math.inf)
        if now < free:
            return free - now
        # After a refusal, a single start probes the place.
        if self._refusals and self._under_way:
            return math.inf
        self._last = now
        self._under_way += 1
        return 0.0

    def end(self, refused: bool | None) -> int:
        """End a start.

        Args:
            refused: True if the place was overloaded; None if unknown.

        Returns:
            Number of consecutive refusals.
        """
        self._under_way -= 1
        if self._begun_before_refusal:
            self._begun_before_refusal -= 1
        elif refused:
            self._begun_before_refusal = self._under_way
            self._refusals += 1
            self._closed_until = time.monotonic() + delay(self._refusals)
        if refused is False:
            self._refusals = 0
        for watcher in list(self._watchers):
            watcher()
        return self._refusals

    def watch(self, callback: Callable[[], object]) -> None:
        """Call `callback` after each end of a start, until `unwatch`."""
        self._watchers.add(callback)

    def unwatch(self, callback: Callable[[], object]) -> None:
        """Remove a callback."""
        self._watchers.discard(callback)


_places: dict[tuple[str, str, str], StartPlace] = {}
os.register_at_fork(after_in_child=_places.clear)  # starts in progress belong to the parent
