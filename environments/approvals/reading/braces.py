"""Brace expansion: `{rm,-rf,/}` is three words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from environments.approvals.reading.budget import Budget
from environments.approvals.reading.tokens import Literal, Part, RawWord

_PIECES = re.compile(r"[{},]|[^{},]+")
_SEQUENCE = re.compile(r"\{[\w+-]+\.\.[\w+-]+(?:\.\.[\w+-]+)?\}")
_Alternatives = list[list[Part]]


def expanded_braces(word: RawWord, budget: Budget) -> list[RawWord]:
    """Return the words that a word stands for. A sequence such as `{1..9}` becomes a pattern."""
    if not any(isinstance(part, Literal) and not part.quoted and "{" in part.text for part in word.parts):
        return [word]
    pieces = list(_pieces(word))
    alternatives, _ = _expanded(pieces, 0, budget, closing=False)
    return [RawWord(parts) for parts in alternatives]


def _pieces(word: RawWord) -> Iterator[Part]:
    for part in word.parts:
        if isinstance(part, Literal) and not part.quoted:
            text = _SEQUENCE.sub("*", part.text)
            yield from (Literal(found[0], quoted=False) for found in _PIECES.finditer(text))
        else:
            yield part


def _expanded(pieces: list[Part], at: int, budget: Budget, *, closing: bool) -> tuple[_Alternatives, int]:
    """Expand from a place to the end, or `closing` behind the brace that closes; -1 as the place if none does."""
    done: _Alternatives = []
    current: _Alternatives = [[]]
    commas = 0
    with budget.deeper():
        while at < len(pieces):
            piece = pieces[at]
            sign = piece.text if isinstance(piece, Literal) and not piece.quoted else ""
            added: _Alternatives = [[piece]]
            if sign == "{":
                inner, end = _expanded(pieces, at + 1, budget, closing=True)
                if end < 0:  # it is a plain character, and so are all that are open around it
                    inner, end = [list(pieces[at:])], len(pieces)
                added, at = inner, end - 1
            elif sign == "}" and closing:
                whole = [[Literal("{", quoted=False), *parts, piece] for parts in current]
                return (done + current if commas else whole), at + 1
            elif sign == "," and closing:
                done += current
                current, added = [[]], [[]]
                commas += 1
            current = [[*left, *right] for left in current for right in added]
            budget.spend(sum(map(len, current)))
            at += 1
    return (current, at) if not closing else ([], -1)
