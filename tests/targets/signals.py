"""Raising signal handlers."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def raising_at(number: int, error: type[BaseException]) -> Iterator[None]:
    """Install a handler for the block. The handler raises an error in the main thread."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise error

    before = signal.signal(number, ring)
    try:
        yield
    finally:
        signal.signal(number, before)
