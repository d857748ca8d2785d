"""What holds for the current thread in a block alone."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Generic, TypeVar

T = TypeVar("T")


class holding(Generic[T]):  # noqa: N801  # it is called as a function is
    """Give a context variable a value in the block, and behind it the one it had.

    It is used once. A generator would cost several times as much, and a command enters some of these.
    """

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[T], value: T) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> None:
        self._token: Token[T] = self._variable.set(self._value)

    def __exit__(self, *_: object) -> None:
        self._variable.reset(self._token)
