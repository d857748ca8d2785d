r"""What backslashes stand for in `$'...'`, `printf` and `echo -e`."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|0?([0-7]{1,3})|c(.)|(.))", re.S)
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_LAST_CHARACTER = 0x10FFFF


def ansi_c(text: str) -> str:
    r"""Return a text with `\x72`, `\162`, `\n` and the like replaced by what they stand for."""
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(found: re.Match[str]) -> str:
    for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
        if digits := found[group]:
            number = int(digits, base)
            return chr(number) if number <= _LAST_CHARACTER else ""
    if found[5]:
        return chr(ord(found[5]) & 0x1F)
    return _NAMED.get(found[6], found[6])
