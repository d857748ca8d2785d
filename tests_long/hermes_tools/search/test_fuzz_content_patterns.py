"""Any text is a pattern or refused by a PatternError, in linear time. `check` can be driven by any fuzzer."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_tools.search.pattern import LONGEST_PATTERN, PatternError, parse_pattern

PARTS = st.sampled_from(
    [*"ab(){}[]|*+?.^$\\-:,1é漢", "(?:", "(?P<x>", "(?i)", "{1,2}", "[[:alpha:]]", "\\d", "\\x41", "\uff11"]
)


def check(pattern: str) -> None:
    """Nothing but PatternError is raised, and what is written stays in bounds."""
    with contextlib.suppress(PatternError):
        written = parse_pattern(pattern)
        assert max(len(written.extended), len(written.rust)) <= 1_000_000
        assert b"\n" not in written.extended and b"\0" not in written.extended


@settings(max_examples=500)
@given(st.lists(PARTS, max_size=12).map("".join) | st.text(max_size=20))
def test_any_text_is_a_pattern_or_refused(pattern: str) -> None:
    check(pattern)


@settings(max_examples=40)
@given(st.lists(PARTS, min_size=1, max_size=4).map("".join))
def test_a_pattern_of_any_length_is_read_at_once(part: str) -> None:
    check((part * LONGEST_PATTERN)[:LONGEST_PATTERN])
