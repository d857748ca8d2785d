"""Leaving off when nobody waits for a tool any more: commands end by themselves, and work done here looks up."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from environments.cancellation import current_scope

_LOOK_UP_SECONDS = 0.05
"""How often one that waits for a lock looks whether its caller still waits for it."""


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
