"""Interruption of a tool whose script has ended: its work on this machine polls the scope of its thread."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from environments.cancellation import current_scope

_CHECK_SECONDS = 0.05
"""The time between two checks of the scope."""


class ToolInterruptedError(Exception):
    """The script that called the tool has ended."""


def raise_if_interrupted() -> None:
    """Raise ToolInterruptedError if the scope of the current thread was cancelled."""
    scope = current_scope()
    if scope and scope.cancelled:
        raise ToolInterruptedError("it was interrupted")


@contextlib.contextmanager
def held(lock: threading.Lock) -> Iterator[None]:
    """Hold a lock in the block, and wait for it no longer than the current scope lasts.

    Raises:
        ToolInterruptedError: The scope was cancelled first.
    """
    raise_if_interrupted()
    while not lock.acquire(timeout=_CHECK_SECONDS):
        raise_if_interrupted()
    try:
        yield
    finally:
        lock.release()


def wait_for(come: Callable[[float], bool], seconds: float) -> bool:
    """Wait for a condition, no longer than the current scope lasts.

    Args:
        come: Waits the given seconds for the condition, and returns whether it holds.
        seconds: The limit.

    Returns:
        Whether the condition holds.

    Raises:
        ToolInterruptedError: The scope was cancelled first.
    """
    seconds = min(seconds, threading.TIMEOUT_MAX)
    if current_scope() is None:
        return come(seconds)
    deadline = time.monotonic() + seconds
    while not come(max(0.0, min(_CHECK_SECONDS, deadline - time.monotonic()))):
        raise_if_interrupted()
        if time.monotonic() >= deadline:
            return False
    return True
