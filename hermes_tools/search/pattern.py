"""One regular expression dialect for every search program.

ripgrep and the various `grep -E` disagree on `\\d`, on lazy quantifiers, on what `.` is in a file that is not ASCII.
So a pattern is read here, in the dialect below, and written out in the little that all of them take alike.

The dialect is what Python, Rust and Perl have in common: literals, `.`, `[...]` with ranges, escapes and
`[:alpha:]`, `\\d \\w \\s \\b` and their opposites (ASCII), `^ $` (a carriage return before the line end does not
count), groups, `|`, `* + ? {m,n}`, lazy or not, and `(?i)` at the start. `.` and a negated set match one character.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from hermes_tools.files.long_lines import quoted
from hermes_tools.search import character_sets
from hermes_tools.search.character_sets import ALL, CLASS_ESCAPES, POSIX_CLASSES

_CHARACTER_ESCAPES = {"t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "e": "\x1b"}
_ANCHOR_ESCAPES = {"A": "^", "Z": "$", "z": "$", "b": "b", "B": "B"}
_FLAGS = re.compile(r"\(\?([ims]+)\)")
_GROUP = re.compile(r"\((?:\?:|\?P?<[A-Za-z_]\w*>)?(?!\?)")
_COUNT = re.compile(r"\{(?:([0-9]+)(?:(,)([0-9]*))?|,([0-9]+))\}")
_CODE = re.compile(r"x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})")
_POSIX_CLASS = re.compile(r"\[:([a-z]+):\]")
LONGEST_PATTERN = 10_000
_MOST_WRITTEN = 1_000_000
"""Characters of a pattern as the programs take it: five characters can stand for 512 alternatives."""
_DEEPEST = 200
"""Groups within each other; ripgrep takes 250 levels, and programs that have no limit may crash."""
_MOST_REPEATS = 255
"""RE_DUP_MAX, the most that POSIX promises."""
_MOST_ALTERNATIVES = 512
"""Characters beyond ASCII in one set: each becomes an alternative."""
_MULTIBYTE = (b"[\xc0-\xff][\x80-\xbf]*", r"[\xc0-\xff][\x80-\xbf]*")
"""One character beyond ASCII, in both forms."""


class PatternError(ValueError):
    """The regular expression is not valid. The message says where."""


@dataclass(frozen=True, slots=True)
class SearchPattern:
    """A regular expression as the programs take it. Both forms match bytes, of which UTF-8 characters are several."""

    extended: bytes
    """For `grep -E` in the C locale."""
    rust: str
    """For `rg --no-unicode`."""


def parse_pattern(pattern: str) -> SearchPattern:
    """Read a regular expression, in time that grows with its length.

    Raises:
        PatternError: It is not valid, is too long, or uses what search programs cannot do, such as look-around.
    """
    if len(pattern) > LONGEST_PATTERN:
        raise PatternError(f"the regex has {len(pattern):,} characters; at most {LONGEST_PATTERN:,} are searched for")
    return _Translation(pattern).run()


class _Translation:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._ignore_case = False
        self._extended: list[bytes] = []
        self._rust: list[str] = []
        self._written = 0
        self._open_groups: list[int] = []
        self._repeatable = False
        """Whether a quantifier may follow what was written last."""

    def run(self) -> SearchPattern:
        if not self._pattern or "\n" in self._pattern or "\0" in self._pattern:
            raise PatternError("invalid regex: a pattern is one line of text that is not empty, without NUL")
        if flags := _FLAGS.match(self._pattern):
            self._ignore_case = "i" in flags.group(1)
            self._at = flags.end()
        while self._at < len(self._pattern):
            self._step(self._pattern[self._at])
        if self._open_groups:
            raise self._error("the group is not closed", self._open_groups[-1])
        return SearchPattern(b"".join(self._extended), "".join(self._rust))

    def _step(self, char: str) -> None:
        count = _COUNT.match(self._pattern, self._at)
        if char in "*+?" or count:
            self._quantifier(char, count)
        elif char == "(":
            self._open_group()
        elif char == ")":
            if not self._open_groups:
                raise self._error("this ')' closes nothing")
            self._open_groups.pop()
            self._advance(1)
            self._emit(b")", ")", repeatable=True)
        elif char == "|":
            self._advance(1)
            self._emit(b"|", "|", repeatable=False)
        elif char in "^$":
            self._advance(1)
            self._anchor(char)
        elif char == ".":
            self._advance(1)
            self._set(ALL, beyond_ascii=True)
        elif char == "[":
            self._bracket()
        elif char == "\\":
            self._escape()
        else:
            self._advance(1)
            self._character(char)

    def _advance(self, count: int) -> None:
        self._at += count

    def _emit(self, extended: bytes, rust: str, *, repeatable: bool) -> None:
        self._extended.append(extended)
        self._rust.append(rust)
        self._repeatable = repeatable
        self._written += max(len(extended), len(rust))
        if self._written > _MOST_WRITTEN:
            raise self._error("sets of characters beyond ASCII make it too large for the search programs")

    def _error(self, what: str, at: int | None = None) -> PatternError:
        position = self._at if at is None else at
        return PatternError(f"invalid regex {quoted(self._pattern)}: {what} (at character {position + 1})")

    def _quantifier(self, char: str, count: re.Match[str] | None) -> None:
        if not self._repeatable:
            raise self._error(f"there is nothing that {char!r} could repeat")
        text = char
        length = 1
        if count:
            length = len(count.group())
            low, comma, high, only_high = count.groups()
            text = f"{{0,{only_high}}}" if only_high else f"{{{low}{comma or ''}{high or ''}}}"
            # Python refuses to read numbers of thousands of digits.
            bounds = [int(number) if len(number) < 10 else math.inf for number in (low, high, only_high) if number]
            if max(bounds) > _MOST_REPEATS or bounds != sorted(bounds):
                raise self._error(f"a repetition counts up to {_MOST_REPEATS}, the smaller number first")
        # A lazy quantifier matches the same lines as one that is not.
        lazy = self._pattern.startswith("?", self._at + length)
        self._emit(text.encode(), text, repeatable=False)
        self._advance(length + lazy)

    def _open_group(self) -> None:
        group = _GROUP.match(self._pattern, self._at)
        if group is None:
            raise self._error("look-around, back references and flags within a pattern cannot be searched for")
        self._open_groups.append(self._at)
        if len(self._open_groups) > _DEEPEST:
            raise self._error(f"groups stand in each other at most {_DEEPEST} deep")
        self._advance(group.end() - group.start())
        self._emit(b"(", "(?:", repeatable=False)

    def _anchor(self, name: str) -> None:
        if name == "$":
            self._emit(b"\r?$", r"\r?$", repeatable=False)
        elif name == "^":
            self._emit(b"^", "^", repeatable=False)
        else:
            self._emit(f"\\{name}".encode(), f"\\{name}", repeatable=False)

    def _escape(self) -> None:
        letter = self._pattern[self._at + 1 : self._at + 2]
        if letter in _ANCHOR_ESCAPES:
            self._advance(2)
            self._anchor(_ANCHOR_ESCAPES[letter])
        elif letter.lower() in CLASS_ESCAPES:
            self._advance(2)
            self._set(character_sets.escaped_class(letter), beyond_ascii=letter.isupper())
        else:
            self._character(self._escaped_character())

    def _escaped_character(self) -> str:
        """Return the character that the escape here stands for, and step past it."""
        letter = self._pattern[self._at + 1 : self._at + 2]
        if not letter:
            raise self._error("a backslash at the end escapes nothing")
        if code := _CODE.match(self._pattern, self._at + 1):
            number = int(next(digits for digits in code.groups() if digits), 16)
            if number in (0, 10) or 0xD800 <= number < 0xE000 or number > 0x10FFFF:
                raise self._error("this is not a character of a line of text")
            self._advance(1 + len(code.group()))
            return chr(number)
        if letter.isalnum() and letter not in _CHARACTER_ESCAPES:
            raise self._error(f"the escape '\\{letter}' is not known; lines are searched one by one")
        self._advance(2)
        return _CHARACTER_ESCAPES.get(letter, letter)

    def _character(self, char: str) -> None:
        if ord(char) < 128:
            self._set(frozenset({ord(char)}))
        else:
            self._set(frozenset(), {char})

    def _bracket(self) -> None:
        start = self._at
        negated = self._pattern.startswith("^", start + 1)
        self._advance(2 if negated else 1)
        codes: set[int] = set()
        beyond: set[str] = set()
        any_beyond = False
        first = self._at
        while self._at == first or not self._pattern.startswith("]", self._at):
            if self._at >= len(self._pattern):
                raise self._error("the set is not closed", start)
            if found := self._class_in_bracket():
                codes |= found[0]
                any_beyond |= found[1]
                continue
            for number in self._range_in_bracket():
                codes.add(number) if number < 128 else beyond.add(chr(number))
            if len(beyond) > _MOST_ALTERNATIVES:
                raise self._error(f"a set holds at most {_MOST_ALTERNATIVES} characters beyond ASCII", start)
        self._advance(1)
        if not negated:
            self._set(frozenset(codes), beyond, beyond_ascii=any_beyond)
        elif beyond:
            raise self._error("a negated set cannot hold characters beyond ASCII", start)
        else:
            self._set(ALL - self._both_cases(codes), beyond_ascii=not any_beyond, fold=False)

    def _class_in_bracket(self) -> tuple[frozenset[int], bool] | None:
        """Read `\\d` or `[:alpha:]` if it is here: its ASCII characters, and whether it has all those beyond."""
        if posix := _POSIX_CLASS.match(self._pattern, self._at):
            if posix.group(1) not in POSIX_CLASSES:
                raise self._error(f"there is no class {posix.group()}")
            self._advance(len(posix.group()))
            return POSIX_CLASSES[posix.group(1)], False
        letter = self._pattern[self._at + 1 : self._at + 2]
        if self._pattern[self._at] == "\\" and letter and letter.lower() in CLASS_ESCAPES:
            self._advance(2)
            return character_sets.escaped_class(letter), letter.isupper()
        return None

    def _range_in_bracket(self) -> range:
        low = self._character_in_bracket()
        following = self._pattern[self._at + 1 : self._at + 2]
        if not self._pattern.startswith("-", self._at) or following in ("]", ""):
            return range(low, low + 1)
        self._advance(1)
        high = self._character_in_bracket()
        if high < low:
            raise self._error("the range is the wrong way round")
        if high >= 128 and high - low > _MOST_ALTERNATIVES + 128:
            raise self._error(f"a set holds at most {_MOST_ALTERNATIVES} characters beyond ASCII")
        return range(low, high + 1)

    def _character_in_bracket(self) -> int:
        char = self._pattern[self._at]
        if char == "\\":
            return ord(self._escaped_character())
        self._advance(1)
        return ord(char)

    def _both_cases(self, codes: Iterable[int]) -> frozenset[int]:
        if not self._ignore_case:
            return frozenset(codes)
        return frozenset(ord(case) for code in codes for case in (chr(code).lower(), chr(code).upper()))

    def _set(
        self,
        codes: frozenset[int],
        beyond: Iterable[str] = (),
        *,
        beyond_ascii: bool = False,
        fold: bool = True,
    ) -> None:
        """Write an atom that matches one of some ASCII characters, some others, or all beyond ASCII."""
        codes = self._both_cases(codes) - {10} if fold else codes
        if beyond_ascii and self._pattern.startswith("*", self._at):
            # Any bytes will do here: whatever is counted on either side starts with the first byte of a character.
            extended = character_sets.extended_set(codes, high_bytes=True)
            self._emit(extended, character_sets.rust_set(codes, high_bytes=True), repeatable=True)
            return
        single = [(character_sets.extended_set(codes), character_sets.rust_set(codes))] if codes else []
        chars = sorted({case for char in beyond for case in self._cases(char)})
        several = [(char.encode(), "".join(f"\\x{byte:02x}" for byte in char.encode())) for char in chars]
        if beyond_ascii:
            several.append(_MULTIBYTE)
        if not single and not several:
            raise self._error("the set is empty")
        extended = b"|".join(form for form, _ in single + several)
        rust = "|".join(form for _, form in single + several)
        if several:
            extended, rust = b"(" + extended + b")", f"(?:{rust})"
        self._emit(extended, rust, repeatable=True)

    def _cases(self, char: str) -> set[str]:
        return {char, char.lower(), char.upper()} if self._ignore_case else {char}
