"""What holds for the current thread in a block alone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


@contextlib.contextmanager
def holding(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Give a context variable a value in the block, and behind it the one it had."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
