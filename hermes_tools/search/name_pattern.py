"""Glob patterns over file names, matched here so that they mean the same with every search program."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

_MOST_ALTERNATIVES = 64
_PART = re.compile(r"\*\*/|\*\*|\*|\?|\[[!^]?\]?[^\]]*\]|.", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z0-9_.,=+@ *?-]+")


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A glob: `*`, `?`, `[...]`, `{a,b}`, and with a slash `**`.

    Without a slash it is matched with the file's name, otherwise with its path from the directory that is searched.
    """

    pattern: str
    regex: re.Pattern[str]

    @classmethod
    def parse(cls, pattern: str) -> NamePattern:
        """Read a glob.

        Raises:
            ValueError: It is empty, holds a NUL character, or has more than 64 alternatives in braces.
        """
        if not pattern or "\0" in pattern:
            raise ValueError("a file name pattern must not be empty or hold NUL characters")
        alternatives = _alternatives(pattern.removeprefix("./"))
        return cls(pattern, re.compile("|".join(_regex(one) for one in alternatives), re.DOTALL))

    def matches(self, path: str) -> bool:
        """Whether the file at `path`, relative to the directory that is searched, is meant."""
        return bool(self.regex.fullmatch(path if "/" in self.pattern else posixpath.basename(path)))

    def prefilters(self) -> list[str]:
        """Return globs for `find -name` and `rg -g` that let through all this one matches, and maybe more.

        Empty when nothing can be left out safely. They have `*` alone, which no program reads differently.
        """
        names = [posixpath.basename(one) for one in _alternatives(self.pattern)]
        if not all(_PLAIN.fullmatch(name) for name in names):
            return []
        # In the C locale, `?` is one byte to `find` and not a whole character.
        return [re.sub(r"[*?]+", "*", name) for name in names]


def _alternatives(pattern: str) -> list[str]:
    """Expand braces, innermost first."""
    found = re.search(r"\{([^{}]*,[^{}]*)\}", pattern)
    if not found:
        return [pattern]
    before, after = pattern[: found.start()], pattern[found.end() :]
    expanded = [one for middle in found.group(1).split(",") for one in _alternatives(before + middle + after)]
    if len(expanded) > _MOST_ALTERNATIVES:
        raise ValueError(f"the file name pattern {pattern!r} has more than {_MOST_ALTERNATIVES} alternatives")
    return expanded


def _regex(glob: str) -> str:
    return "".join(_part_regex(part) for part in _PART.findall(glob))


def _part_regex(part: str) -> str:
    if part == "**/":
        return "(?:.*/)?"
    if part == "**":
        return ".*"
    if part == "*":
        return "[^/]*"
    if part == "?":
        return "[^/]"
    if len(part) > 1:
        negated = part[1] in "!^"
        items = re.sub(r"([\[\]\\^&~|])", r"\\\1", part[2 if negated else 1 : -1])
        return f"(?!/)[{'^' if negated else ''}{items}]"
    return re.escape(part)
