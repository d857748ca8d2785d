"""Sets of ASCII characters, and how they are written for `grep -E` and for ripgrep."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

ALL = frozenset(range(1, 128)) - {10}
"""What a line of ASCII text can hold."""
_DIGIT = frozenset(range(48, 58))
_ALPHA = frozenset(range(65, 91)) | frozenset(range(97, 123))
_WORD = _ALPHA | _DIGIT | {95}
_SPACE = frozenset({9, 11, 12, 13, 32})
CLASS_ESCAPES = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
POSIX_CLASSES = {
    "alnum": _ALPHA | _DIGIT,
    "alpha": _ALPHA,
    "blank": frozenset({9, 32}),
    "cntrl": frozenset({*range(1, 32), 127}) - {10},
    "digit": _DIGIT,
    "graph": frozenset(range(33, 127)),
    "lower": frozenset(range(97, 123)),
    "print": frozenset(range(32, 127)),
    "punct": frozenset(range(33, 127)) - _ALPHA - _DIGIT,
    "space": _SPACE,
    "upper": frozenset(range(65, 91)),
    "xdigit": _DIGIT | frozenset(b"abcdefABCDEF"),
}


def escaped_class(letter: str) -> frozenset[int]:
    """Return the ASCII characters of the escape with this letter: `d`, `w`, `s`, or its opposite in upper case."""
    codes = CLASS_ESCAPES[letter.lower()]
    return ALL - codes if letter.isupper() else codes


def extended_set(codes: frozenset[int], *, high_bytes: bool = False) -> bytes:
    """Write a set for `grep -E` in the C locale: a bracket expression, or a single character by itself.

    Args:
        codes: ASCII codes, not empty unless `high_bytes`.
        high_bytes: Whether all bytes above ASCII are in the set too.
    """
    if len(codes) == 1 and not high_bytes:
        (code,) = codes
        return (b"\\" if code in b".[\\()*+?{|^$" else b"") + bytes([code])
    # A bracket expression knows no escape: `]` stands first, `^` not first, `-` last.
    items = b"]" if ord("]") in codes else b""
    for low, high in _runs(codes - frozenset(b"][^-")):
        items += bytes([low]) if low == high else bytes([low]) + b"-" + bytes([high])
    items += b"\x80-\xff" if high_bytes else b""
    items += b"[" if ord("[") in codes else b""
    caret, dash = b"^" if ord("^") in codes else b"", b"-" if ord("-") in codes else b""
    return b"[" + (items + caret + dash if items else dash + caret) + b"]"


def rust_set(codes: frozenset[int], *, high_bytes: bool = False) -> str:
    """Write a set for ripgrep. Arguments are those of `extended_set`."""
    runs = [*_runs(codes), (0x80, 0xFF)] if high_bytes else _runs(codes)
    items = [f"\\x{low:02x}" if low == high else f"\\x{low:02x}-\\x{high:02x}" for low, high in runs]
    return f"[{''.join(items)}]"


def _runs(codes: Iterable[int]) -> list[tuple[int, int]]:
    numbered = enumerate(sorted(codes))
    runs = [[code for _, code in run] for _, run in groupby(numbered, lambda pair: pair[1] - pair[0])]
    return [(run[0], run[-1]) for run in runs]
