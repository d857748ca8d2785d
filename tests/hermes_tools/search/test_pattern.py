from __future__ import annotations

import pytest

from hermes_tools.search.name_pattern import NamePattern
from hermes_tools.search.pattern import PatternError, parse_pattern

WRITTEN = [
    (r"def \w+\(", rb"def [0-9A-Z_a-z]+\("),
    (r"a{2,3}?b*?", b"a{2,3}b*"),
    (r"(?P<x>a)(?:b)", b"(a)(b)"),
    (r"{}", rb"\{}"),
    (r"\{,}", rb"\{,}"),
    (r"x{,4}", b"x{0,4}"),
    (r"(?i)a[^b]", b"[Aa]([]\x01-\t\x0b-,.-AC-Z\\_-ac-\x7f[^-]|[\xc0-\xff][\x80-\xbf]*)"),
    (r"[]^-]", b"[]^-]"),
    (r"[\^]", rb"\^"),
    (r"[-^]", b"[-^]"),
    (r"[[:digit:]_]", b"[0-9_]"),
    (r"é+", b"(\xc3\xa9)+"),
    (r"\Aa\Z", b"^a\r?$"),
    (r"\x41\x{42}\u0043\U00000044", b"ABCD"),
    ("\t\\t", b"\t\t"),
]
REFUSED = [
    ("", "not empty"),
    ("a\nb", "one line"),
    ("(a", "group is not closed"),
    ("a)", "closes nothing"),
    ("[a", "set is not closed"),
    ("[]", "set is not closed"),
    ("*a", "nothing that '\\*' could repeat"),
    ("a**", "nothing that '\\*' could repeat"),
    ("a++", "nothing that '\\+' could repeat"),
    ("^+", "nothing that '\\+' could repeat"),
    ("(?=a)", "look-around"),
    ("(?<!a)b", "look-around"),
    ("a(?i)b", "look-around, back references and flags"),
    (r"(a)\1", "escape '.1' is not known"),
    (r"\p{L}", "escape '.p' is not known"),
    (r"a\nb", "escape '.n' is not known"),
    ("a\\", "backslash at the end"),
    (r"\x00", "not a character of a line"),
    (r"\ud800", "not a character of a line"),
    ("[b-a]", "wrong way round"),
    ("[[:nope:]]", "no class"),
    ("a{256}", "counts up to 255"),
    ("a{3,2}", "smaller number first"),
    ("[^é]", "negated set"),
    ("[一-龥]", "at most 512"),
    ("a|" * 50_000 + "b", "at most 10,000 are searched for"),
    ("(" * 9000 + ")" * 1000, "at most 200 deep"),
    ("a{" + "1" * 9000 + "}", "counts up to 255"),
    ("[à-ʯ]" * 2000, "too large for the search programs"),
]
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
    ("{" + "b," * 400 + "}", "more than 64 alternatives"),
    ("{a,b}" * 7, "more than 64 alternatives"),
    ("{a," * 200 + "}" * 200, "more than 64 alternatives"),
    ("{a,b,c,d}{a,b,c,d}{a,b,c,d}" + "x" * 900, "at most 4,096 characters together"),
    ("\ud800", "UTF-8"),
]


def test_a_pattern_is_written_in_what_every_grep_takes() -> None:
    assert [row for row in WRITTEN if parse_pattern(row[0]).extended != row[1]] == []
    assert parse_pattern("{" + "1" * 9999).extended == b"\\{" + b"1" * 9999


def test_a_pattern_that_cannot_be_searched_for_is_refused_with_the_reason() -> None:
    for pattern, reason in REFUSED:
        with pytest.raises(PatternError, match=reason) as refused:
            parse_pattern(pattern)
        assert len(str(refused.value)) < 500


def test_globs() -> None:
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
