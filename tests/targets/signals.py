"""Signals to this process."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def raising_at(number: int, error: type[BaseException]) -> Iterator[None]:
    """Have a signal raise an error in the main thread in the block."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise error

    before = signal.signal(number, ring)
    try:
        yield
    finally:
        signal.signal(number, before)
