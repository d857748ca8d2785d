"""A fuzz target: a reader of untrusted bytes, and the words of real input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

Check = Callable[[bytes], None]

_CHOICES = 2


@dataclass(frozen=True)
class Target:
    """A check, and words of real input. Random bytes without them are hardly ever meaningful."""

    check: Check
    """Raises no error on any bytes."""
    words: tuple[bytes, ...]

    @property
    def name(self) -> str:
        return self.check.__name__.removeprefix("check_")


def split_seed(data: bytes) -> tuple[Random, bytes]:
    """Return a random generator seeded with the first bytes, and the remaining bytes."""
    return Random(data[:_CHOICES]), data[_CHOICES:]


def cut(data: bytes, chance: Random) -> list[bytes]:
    """Cut bytes anywhere, as a stream does."""
    pieces = []
    while data:
        size = chance.choice((1, 2, 7, 30, 1000))
        pieces.append(data[:size])
        data = data[size:]
    return pieces


def joined(parts: Sequence[object]) -> list[object]:
    """Join adjacent bytes."""
    found: list[object] = []
    for part in parts:
        if isinstance(part, bytes) and found and isinstance(found[-1], bytes):
            found[-1] += part
        else:
            found.append(part)
    return found
