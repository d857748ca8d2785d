"""What braces in a glob stand for: `{a,b}.py` is `a.py` or `b.py`."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

MOST_ALTERNATIVES = 64
MOST_CHARACTERS = 4096
"""Of all alternatives together: what matching one name costs grows with it."""

_Pieces: TypeAlias = "list[str | _Choice]"


@dataclass(frozen=True, slots=True)
class _Choice:
    branches: Sequence[_Pieces]
    count: int
    """How many alternatives it stands for."""


@dataclass(slots=True)
class _Open:
    """What was read since a brace was opened, or since the beginning."""

    branches: list[_Pieces] = field(default_factory=lambda: [[]])
    holds_braces: bool = False
    """Whether there is a pair of braces in it that stands for itself."""

    def as_written(self) -> _Pieces:
        first, *others = self.branches
        return first + [piece for branch in others for piece in (",", *branch)]


def alternatives(pattern: str) -> tuple[str, ...]:
    """Return the patterns without braces that one with braces stands for.

    Braces that are not closed, or hold no comma, or hold such braces, stand for themselves. The alternatives are
    counted before they are built.

    Raises:
        ValueError: There are more than 64, or they have more than 4,096 characters together.
    """
    open_braces = [_Open()]
    for part in re.split(r"([{},])", pattern):
        if part == "{":
            open_braces.append(_Open())
        elif part == "," and len(open_braces) > 1:
            open_braces[-1].branches.append([])
        elif part == "}" and len(open_braces) > 1:
            _close(open_braces.pop(), open_braces[-1])
        elif part:
            open_braces[-1].branches[-1].append(part)
    pieces = open_braces[0].as_written()
    for unclosed in open_braces[1:]:
        pieces += ["{", *unclosed.as_written()]
    _count(pieces)
    found = tuple(itertools.islice(_expanded(pieces), MOST_ALTERNATIVES))
    if sum(map(len, found)) > MOST_CHARACTERS:
        raise ValueError(
            f"the alternatives of a file name pattern have at most {MOST_CHARACTERS:,} characters together"
        )
    return found


def _close(inner: _Open, outer: _Open) -> None:
    if len(inner.branches) > 1 and not inner.holds_braces:
        count = sum(map(_count, inner.branches))
        if count > MOST_ALTERNATIVES:
            raise _too_many()
        outer.branches[-1].append(_Choice(inner.branches, count))
    else:
        outer.branches[-1] += ["{", *inner.as_written(), "}"]
        outer.holds_braces = True


def _count(pieces: _Pieces) -> int:
    count = math.prod(piece.count for piece in pieces if isinstance(piece, _Choice))
    if count > MOST_ALTERNATIVES:
        raise _too_many()
    return count


def _too_many() -> ValueError:
    return ValueError(f"the file name pattern has more than {MOST_ALTERNATIVES} alternatives in its braces")


def _expanded(pieces: _Pieces) -> Iterator[str]:
    # A choice within another adds to its count, so that they stand no deeper than there may be alternatives.
    choices = [[piece] if isinstance(piece, str) else _all(piece) for piece in pieces]
    return map("".join, itertools.product(*choices))


def _all(choice: _Choice) -> list[str]:
    return [one for branch in choice.branches for one in _expanded(branch)]
