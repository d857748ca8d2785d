"""The search programs, and Python, agree about made-up patterns and lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from targets.search_engines import places, search_with_all, with_ripgrep

from environments.base import BaseEnvironment


@pytest.fixture(scope="module")
def tree_env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseEnvironment]:
    with with_ripgrep(tmp_path_factory.mktemp("tree")) as environment:
        yield environment


ATOMS = st.sampled_from(
    [
        *["a", "b", "_", " ", "-", r"\.", r"\\", r"\[", "]", "é", "漢", "1", "{", "}", r"\-", r"\x61", r"\u6f22"],
        *[".", r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", "[ab]", "[^a_]", "[]a]", "[^]a]", "[a^-]", "[^^]"],
        *["[é漢a]", r"[\w-]", r"[\Wa]", r"[^\W1]", "[à-ü]", r"[\]\\[]", "[-^]", "[^-]", "[!-~]"],
    ]
)
QUANTIFIERS = st.sampled_from(["", "", "", "*", "+", "?", "*?", "+?", "{2}", "{1,2}", "{0,1}", "{2,}"])
ANCHORS = st.sampled_from(["^", "$", r"\b"])


def groups(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = st.builds(
        lambda opening, first, second, quantifier: f"{opening}{first}|{second}){quantifier}",
        st.sampled_from(["(", "(?:", "(?P<name>"]),
        inner,
        inner,
        QUANTIFIERS,
    )
    return st.lists(inner | group | ANCHORS, min_size=1, max_size=3).map("".join)


PATTERNS = st.recursive(st.builds(str.__add__, ATOMS, QUANTIFIERS), groups, max_leaves=5).filter(
    lambda pattern: pattern.count("?P<name>") < 2
)
LINES = st.lists(st.text("abAB_ -.1]^[\\é漢{}~", max_size=6), min_size=1, max_size=12)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pattern=PATTERNS, lines=LINES, ignore_case=st.booleans(), ended=st.booleans())
def test_any_pattern_matches_the_lines_that_python_says(
    tree_env: BaseEnvironment, pattern: str, lines: list[str], ignore_case: bool, ended: bool
) -> None:
    directory = Path(tree_env.cwd) / "generated"
    directory.mkdir(exist_ok=True)
    (directory / "a").write_text("\n".join(lines) + ("\n" if ended else ""), encoding="utf-8")
    pattern = "(?i)" + pattern if ignore_case else pattern
    regex = re.compile(pattern, re.ASCII)
    # A last line that is empty and has no newline is no line.
    searched = lines if ended or lines[-1] else lines[:-1]
    expected = [("generated/a", number) for number, line in enumerate(searched, 1) if regex.search(line)]
    assert places(search_with_all(tree_env, pattern, path="generated")) == expected
