"""Globs agree with a reference of a few lines, and take linear time. Any fuzzer can drive `check`."""

from __future__ import annotations

import re
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_tools.search.name_pattern import LONGEST_PATTERN, NamePattern

SIGNS = st.text("ab/*?[]!^-{},.\\é\n&~|", max_size=12)


def check(glob: str, path: str) -> None:
    """Compare with the reference. A refused glob raises ValueError."""
    try:
        pattern = NamePattern.parse(glob)
    except ValueError:
        return
    shown = path if "/" in glob else path.rpartition("/")[2]
    assert pattern.matches(path) is any(matched(one, shown) for one in expanded(glob.removeprefix("./")))


def expanded(glob: str) -> list[str]:
    """Expand braces, innermost first."""
    found = re.search(r"\{([^{}]*,[^{}]*)\}", glob)
    if not found:
        return [glob]
    before, after = glob[: found.start()], glob[found.end() :]
    return [one for middle in found[1].split(",") for one in expanded(before + middle + after)]


def matched(glob: str, name: str) -> bool:
    @cache
    def rest(g: int, n: int) -> bool:  # noqa: PLR0911 -- a line for each sign
        if g == len(glob):
            return n == len(name)
        if glob.startswith("**/", g):
            return rest(g + 3, n) or any(rest(g + 3, at + 1) for at in range(n, len(name)) if name[at] == "/")
        if glob.startswith("**", g):
            return any(rest(g + 2, at) for at in range(n, len(name) + 1))
        if glob[g] == "*":
            return rest(g + 1, n) or (name[n : n + 1] not in ("", "/") and rest(g, n + 1))
        if n == len(name):
            return False
        if glob[g] == "?":
            return name[n] != "/" and rest(g + 1, n + 1)
        if glob[g] == "[" and (found := re.compile(r"\[([!^]?+)(.[^\]]*)\]", re.DOTALL).match(glob, g)):
            inside = in_set(found[2], name[n]) is not bool(found[1])
            return inside and name[n] != "/" and rest(found.end(), n + 1)
        return glob[g] == name[n] and rest(g + 1, n + 1)

    return rest(0, 0)


def in_set(items: str, char: str) -> bool:
    if not items:
        return False
    if items[1:2] == "-" and len(items) > 2:
        return items[0] <= char <= items[2] or in_set(items[3:], char)
    return char == items[0] or in_set(items[1:], char)


@settings(max_examples=1000)
@given(SIGNS, SIGNS)
def test_a_glob_means_what_the_reference_says(glob: str, path: str) -> None:
    check(glob, path)


@settings(max_examples=300)
@given(st.text(max_size=30), st.text(max_size=30))
def test_any_text_is_a_glob_or_refused_by_value(glob: str, path: str) -> None:
    if not any(0xD800 <= ord(char) < 0xE000 for char in path):  # names arrive with these replaced
        check(glob, path)


@settings(max_examples=60)
@given(st.text("ab*?[]!{},", min_size=1, max_size=6), st.text("ab", min_size=1, max_size=3))
def test_a_long_glob_and_a_long_name_take_no_minutes(part: str, name: str) -> None:
    glob = (part * LONGEST_PATTERN)[:LONGEST_PATTERN]
    try:
        NamePattern.parse(glob).matches((name * 4095)[:4095])
    except ValueError as error:
        assert "alternatives" in str(error)  # noqa: PT017
