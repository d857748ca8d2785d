"""Glob patterns over file names, with the same meaning for every search program."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

LONGEST_PATTERN = 1000
_MAX_ALTERNATIVES = 64
_MAX_CHARACTERS = 4096
"""Limit of all alternatives together, as the time of a match grows with their length."""
_BRACES = re.compile(r"\{([^{},]*(?:,[^{},]*)+)\}")
_STARS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
_STAR = re.compile(r"\*\*/|\*\*|[*?]")
_NOTHING = r"^\x{0}-\x{10ffff}"
_PLAIN = re.compile(r"[A-Za-z0-9_.,=+@ *?-]+")


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A glob: `*`, `?`, `[...]`, `{a,b}`, and with a slash `**`.

    Without a slash, names of files are matched, else paths from the directory of the search.
    """

    pattern: str
    alternatives: tuple[str, ...]
    """The same without braces."""
    _fullmatch: Callable[[str], object]

    @classmethod
    def parse(cls, pattern: str) -> NamePattern:
        """Read a glob.

        Raises:
            ValueError: The glob is empty, has more than 1,000 characters or 64 alternatives in braces, or holds a NUL
                character or half of a UTF-16 pair.
        """
        if not pattern or "\0" in pattern:
            raise ValueError("a file name pattern must not be empty or hold NUL characters")
        if len(pattern) > LONGEST_PATTERN:
            raise ValueError(f"a file name pattern has at most {LONGEST_PATTERN:,} characters, not {len(pattern):,}")
        try:
            pattern.encode()
        except UnicodeEncodeError:
            raise ValueError(f"the file name pattern {pattern!r} is not text that UTF-8 can hold") from None
        expanded = _alternatives(pattern.removeprefix("./"))
        return cls(pattern, expanded, _compiled("|".join(map(_regex, expanded))))

    def matches(self, path: str) -> bool:
        """Return True if a path, relative to the directory of the search, matches.

        The time grows with the length of the path times the length of the pattern, and no faster.
        """
        return bool(self._fullmatch(path if "/" in self.pattern else posixpath.basename(path)))

    def prefilters(self) -> list[str]:
        """Return globs for `find -name` and `rg -g` that match all names of this glob, and maybe more.

        Empty if no name can be left out safely. The globs have `*` alone, with the same meaning for all programs.
        """
        names = [posixpath.basename(one) for one in self.alternatives]
        if not all(_PLAIN.fullmatch(name) for name in names):
            return []
        # In the C locale, `?` matches a byte for `find`, not a whole character. `**` may match slashes.
        return [re.sub(r".*\*\*|[*?]+", "*", name) for name in names]


def _alternatives(pattern: str) -> tuple[str, ...]:
    """Return the alternatives of a pattern with braces. Braces without a comma are ordinary characters.

    Raises:
        ValueError: There are more than 64, or they have more than 4,096 characters together.
    """
    found = [pattern]
    while any(braces := [_BRACES.search(one) for one in found]):
        expanded = [
            f"{one[: brace.start()]}{branch}{one[brace.end() :]}" if brace else one
            for one, brace in zip(found, braces, strict=True)
            for branch in (brace[1].split(",") if brace else [""])
        ]
        found = list(dict.fromkeys(expanded))
        if len(found) > _MAX_ALTERNATIVES:
            raise ValueError(f"the file name pattern has more than {_MAX_ALTERNATIVES} alternatives in its braces")
        if sum(map(len, found)) > _MAX_CHARACTERS:
            raise ValueError(
                f"the alternatives of a file name pattern have at most {_MAX_CHARACTERS:,} characters together"
            )
    return tuple(found)


def _compiled(regex: str) -> Callable[[str], object]:
    # Python's own `re` backtracks: `*a*a*a*[b]` takes hours, and all threads wait.
    # Imported with the first glob: a search without a glob does not need it.
    import re2

    options = re2.Options()
    options.dot_nl = True
    options.never_capture = True
    options.log_errors = False
    fullmatch: Callable[[str], object] = re2.compile(regex, options).fullmatch
    return fullmatch


def _regex(glob: str) -> str:
    return "".join(_parts(glob))


def _parts(glob: str) -> Iterator[str]:
    """Translate a glob without braces into a regular expression, part by part."""
    at = 0
    last_closing = glob.rfind("]")
    while at < len(glob):
        if star := _STAR.match(glob, at):
            yield _STARS[star.group()]
            at = star.end()
            continue
        negated = glob[at + 1 : at + 2] in ("!", "^")
        first = at + (2 if negated else 1)
        # A set has at least one character, so a leading `]` stands for itself.
        if glob[at] == "[" and first + 1 <= last_closing:
            end = glob.index("]", first + 1)
            yield _set(glob[first:end], negated)
            at = end + 1
        else:
            yield _character(ord(glob[at]))
            at += 1


def _set(items: str, negated: bool) -> str:
    """Translate a set, always without the slash. A range from a greater to a lesser character is empty."""
    ranges = []
    at = 0
    while at < len(items):
        is_range = items[at + 1 : at + 2] == "-" and at + 2 < len(items)
        ranges.append((ord(items[at]), ord(items[at + 2 if is_range else at])))
        at += 3 if is_range else 1
    if negated:
        return f"[^/{_written(ranges)}]"
    below = [(low, min(high, ord("/") - 1)) for low, high in ranges]
    above = [(max(low, ord("/") + 1), high) for low, high in ranges]
    return f"[{_written(below + above) or _NOTHING}]"


def _written(ranges: Iterable[tuple[int, int]]) -> str:
    return "".join(f"{_character(low)}-{_character(high)}" for low, high in ranges if low <= high)


def _character(code: int) -> str:
    return f"\\x{{{code:x}}}"
