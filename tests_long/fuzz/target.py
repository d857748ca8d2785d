"""One thing that reads what others wrote, and how it is to be tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

Check = Callable[[bytes], None]

_CHOICES = 2


@dataclass(frozen=True)
class Target:
    """A check, and what real input is made of: without those words hardly any bytes mean anything."""

    check: Check
    """Raises nothing, whatever it is given."""
    words: tuple[bytes, ...]

    @property
    def name(self) -> str:
        return self.check.__name__.removeprefix("check_")


def with_chance(data: bytes) -> tuple[Random, bytes]:
    """Let the first bytes decide what else there is to decide, and return the others."""
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
    """Join the bytes that stand beside each other."""
    found: list[object] = []
    for part in parts:
        if isinstance(part, bytes) and found and isinstance(found[-1], bytes):
            found[-1] += part
        else:
            found.append(part)
    return found
