"""The size of a pseudo-terminal."""

from __future__ import annotations

from typing import NamedTuple, Self

_MOST = 65535
"""What the kernel has room for."""


class Terminal(NamedTuple):
    """A size, in characters."""

    rows: int = 24
    columns: int = 80

    @classmethod
    def checked(cls, rows: object, columns: object) -> Self:
        """Return a size.

        Raises:
            TypeError: One of the numbers is not whole.
            ValueError: One of them is not from 1 to 65,535.
        """
        for name, value in (("rows", rows), ("columns", columns)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} is of type {type(value).__name__}; give a whole number")
            if not 0 < value <= _MOST:
                raise ValueError(f"{name} is {value}; give a number from 1 to {_MOST}")
        assert isinstance(rows, int) and isinstance(columns, int)
        return cls(rows, columns)
