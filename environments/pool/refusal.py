"""What a failed start says of the next one: whether it may go better soon, and for whom the failure is an answer."""

from __future__ import annotations

import errno
import random
import re
from collections.abc import Iterator
from enum import Enum

from environments.errors import (
    EnvironmentStartError,
    MissingExtraError,
    SettingsError,
    StartStoppedError,
    UnsupportedError,
)

FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0
"""Seconds until a start is tried again: the first time, and at the most."""

_BUSY_STATUS = frozenset({408, 425, 429, 502, 503, 504})
"""Answers of an HTTP service that has too much to do."""
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
"""The system's numbers for what it has not enough of just now."""
_BUSY_WORDS = re.compile(
    r"too many|rate.?limit|resource.?exhausted|resource temporarily|no space left|try again|temporarily unavailable"
    r"|service unavailable|cannot allocate memory|out of memory|no thread can be started|quota|throttl"
    r"|server is overloaded|could not find an available|reading ssh protocol banner|max.?startups",
    re.IGNORECASE,
)
"""Words of engines and services that have too much to do, or too little room."""


class Verdict(Enum):
    """What a failed start means."""

    BUSY = "busy"
    """The engine refuses for now; it is asked again later."""
    WRONG = "wrong"
    """Every other start would fail in the same way."""
    CHANCE = "chance"
    """This one has failed, and others need not."""


def verdict(error: BaseException) -> Verdict:
    """Say what an error of a start means.

    Args:
        error: What the start has raised.
    """
    if isinstance(error, SettingsError | UnsupportedError | MissingExtraError):
        return Verdict.WRONG
    if any(_says_busy(each) for each in _chain(error)):
        return Verdict.BUSY
    if isinstance(error, EnvironmentStartError) and not isinstance(error, StartStoppedError):
        return Verdict.WRONG
    return Verdict.CHANCE


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Go through an error and what it was raised for."""
    seen: set[int] = set()
    while error and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _says_busy(error: BaseException) -> bool:
    for name in ("status_code", "status"):
        if getattr(error, name, None) in _BUSY_STATUS:
            return True
    if isinstance(error, OSError) and error.errno in _BUSY_ERRNO:
        return True
    return bool(_BUSY_WORDS.search(f"{type(error).__name__} {error}"))


def delay(refusals: int) -> float:
    """Return after how many seconds to ask again: twice as long each time, and by chance less, so that not all do.

    Args:
        refusals: How often in a row it was refused, from 1.
    """
    longest = min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(refusals - 1, 16))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - it keeps no secret
