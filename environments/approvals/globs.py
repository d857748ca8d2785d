"""Globs in shell text, matched against well-known names.

`fnmatch` would cache a compiled expression for each, and the number of globs in a text has no limit.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from environments.approvals.command import Command

_SIGNS = re.compile(r"\*+|\?|\[[!^]?\]?[^\]]*\]|.", re.DOTALL)
_LONGEST = 64


def is_pattern(text: str) -> bool:
    """Return True if an unquoted text is a glob; `[` alone is a program."""
    return "*" in text or "?" in text or ("[" in text and "]" in text)


def matching_names(text: str, names: Collection[str]) -> list[str]:
    """Return the names equal to a text or matched by a glob. A glob above the length limit matches all."""
    if not is_pattern(text):
        return [text] if text in names else []
    if len(text) > _LONGEST:
        return sorted(names)
    signs = _SIGNS.findall(text)
    return [name for name in sorted(names) if _fits(name, signs)]


def possible_programs(command: Command, known: Collection[str]) -> tuple[str, ...]:
    """Return the possible programs of a command: mostly its name; for a glob such as `r?`, all known matches."""
    name = command.name
    if not (command.words and command.words[0].glob and is_pattern(name)):
        return (name,)
    return tuple(matching_names(name, known)) if name.strip("*?[]") else ("rm",)


def _fits(name: str, signs: list[str]) -> bool:
    at = sign = 0
    star, resumed = -1, 0
    while at < len(name):
        if sign < len(signs) and signs[sign].startswith("*"):
            star, resumed, sign = sign, at, sign + 1
        elif sign < len(signs) and _is_one(name[at], signs[sign]):
            at, sign = at + 1, sign + 1
        elif star >= 0:  # the star takes one character more
            resumed += 1
            at, sign = resumed, star + 1
        else:
            return False
    return all(left.startswith("*") for left in signs[sign:])


def _is_one(char: str, sign: str) -> bool:
    if sign == "?":
        return True
    if not sign.startswith("[") or len(sign) == 1:
        return char == sign
    negated = sign[1] in "!^"
    body = sign[2 if negated else 1 : -1]
    ranges = re.findall(r"(.)-(.)|(.)", body, re.DOTALL)
    found = any(first <= char <= last if first else char == single for first, last, single in ranges)
    return found != negated or body.startswith("[:")
