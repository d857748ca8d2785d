from __future__ import annotations

import pytest

from hermes_tools.search.engines import part_unlike_grep
from hermes_tools.search.name_pattern import NamePattern

UNLIKE = {
    r"\d+": r"\d",
    r"a\tb": r"\t",
    r"\p{L}": r"\p",
    r"[\s\S]": r"[\s\S]",
    r"[^\]]x": r"[^\]",
    "(?=a)": "(?",
    "(?:a)": "(?",
    "a+?": "+?",
    "a{2}?": "}?",
}
ALIKE = (
    r"\bdef \w+\(",
    r"\\d",
    "[[:digit:]_]",
    r"[\\]d",
    "[]d]",
    "a*?b",
    "a++",
    r"\(\?",
    "[(?:]",
    r"\.\*",
    "é{2,3}|漢$",
)
GLOBS = [
    ("*.py", "src/a.py", True),
    ("*.py", "src/a.pyc", False),
    ("*", ".hidden", True),
    ("?.py", "é.py", True),
    ("src/*.py", "src/a.py", True),
    ("src/*.py", "src/sub/a.py", False),
    ("src/*.py", "lib/src/a.py", False),
    ("src/**/*.py", "src/a.py", True),
    ("src/**/*.py", "src/sub/deep/a.py", True),
    ("**/test_*", "test_a", True),
    ("./a.py", "a.py", True),
    ("{a,b}{1,2}.py", "b2.py", True),
    ("{a,b{c,d}}", "bd", True),
    ("{a}", "{a}", True),
    ("[a-c]x", "bx", True),
    ("[!a-c]x", "bx", False),
    ("[^a-c]x", "dx", True),
    ("[]]x", "]x", True),
    ("[!]]x", "]x", False),
    ("[[&^]x", "^x", True),
    ("a[", "a[", True),
    ("a.b", "axb", False),
    ("two*", "two\nlines", True),
]
COSTLY_GLOBS = [
    ("{" + "," * 8000, "at most 1,000 characters"),
    ("[" * 20_000, "at most 1,000 characters"),
    ("{" + ",".join(map(str, range(200))) + "}", "more than 64 alternatives"),
    ("{a,b}" * 7, "more than 64 alternatives"),
    ("{a,b}" * 190, "more than 64 alternatives|at most 4,096 characters together"),
    ("".join(f"{{{number}," for number in range(99)) + "}" * 99, "at most 4,096 characters together"),
    ("{a,b,c,d}{a,b,c,d}{a,b,c,d}" + "x" * 900, "at most 4,096 characters together"),
    ("\ud800", "UTF-8"),
]


def test_patterns_with_another_meaning_in_grep_are_detected() -> None:
    assert {pattern: part_unlike_grep(pattern) for pattern in UNLIKE} == UNLIKE
    assert [pattern for pattern in ALIKE if part_unlike_grep(pattern)] == []


def test_globs_match_paths() -> None:
    assert [row for row in GLOBS if NamePattern.parse(row[0]).matches(row[1]) is not row[2]] == []


def test_a_glob_that_would_cost_too_much_is_refused_with_the_bound() -> None:
    for glob, reason in COSTLY_GLOBS:
        with pytest.raises(ValueError, match=reason):
            NamePattern.parse(glob)


def test_stars_never_freeze_the_process() -> None:
    globs = ["*a*a*a*[b]", "*a" * 400 + "b", "**a" * 300 + "b", "{*a*a*a*b,*a*a*a*c}"]
    assert [glob for glob in globs if NamePattern.parse(glob).matches("a" * 255)] == []
    for glob in ("{" + "," * 999, "[" * 1000, "{" * 1000, "{}" * 500, "{" * 500 + "}" * 500, "[]" * 500):
        assert NamePattern.parse(glob).matches(glob) is not glob.startswith("[]"), "the longest are read at once"
