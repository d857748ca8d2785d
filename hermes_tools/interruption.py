"""Leaving off when nobody waits for a tool any more: commands end by themselves, and work done here looks up."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from environments.cancellation import current_scope

_LOOK_UP_SECONDS = 0.05
"""How often one that waits looks whether its caller still waits for it."""


class ToolInterruptedError(Exception):
    """The script that called the tool has ended."""


def raise_if_interrupted() -> None:
    """Raise ToolInterruptedError if the scope that the current thread works in was cancelled."""
    scope = current_scope()
    if scope and scope.cancelled:
        raise ToolInterruptedError("it was interrupted")


@contextlib.contextmanager
def held(lock: threading.Lock) -> Iterator[None]:
    """Hold a lock in the block; it is waited for only as long as the current scope lasts.

    Raises:
        ToolInterruptedError: The scope was cancelled first.
    """
    raise_if_interrupted()
    while not lock.acquire(timeout=_LOOK_UP_SECONDS):
        raise_if_interrupted()
    try:
        yield
    finally:
        lock.release()


def wait_for(come: Callable[[float], bool], seconds: float) -> bool:
    """Wait for something at most so long, and only as long as the current scope lasts.

    Args:
        come: Waits for so many seconds, and says whether it has come.
        seconds: The limit.

    Returns:
        Whether it has come.

    Raises:
        ToolInterruptedError: The scope was cancelled first.
    """
    seconds = min(seconds, threading.TIMEOUT_MAX)
    if current_scope() is None:
        return come(seconds)
    deadline = time.monotonic() + seconds
    while not come(max(0.0, min(_LOOK_UP_SECONDS, deadline - time.monotonic()))):
        raise_if_interrupted()
        if time.monotonic() >= deadline:
            return False
    return True
