from __future__ import annotations

import pytest

from hermes_tools.search.name_pattern import NamePattern
from hermes_tools.search.pattern import PatternError, parse_pattern


@pytest.mark.parametrize(
    ("pattern", "extended"),
    [
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
    ],
)
def test_a_pattern_is_written_in_what_every_grep_takes(pattern: str, extended: bytes) -> None:
    assert parse_pattern(pattern).extended == extended


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
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
    ],
)
def test_a_pattern_that_cannot_be_searched_for_is_refused_with_the_reason(pattern: str, reason: str) -> None:
    with pytest.raises(PatternError, match=reason):
        parse_pattern(pattern)


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
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
    ],
)
def test_globs(glob: str, path: str, expected: bool) -> None:
    assert NamePattern.parse(glob).matches(path) is expected


def test_a_glob_with_too_many_alternatives_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 64 alternatives"):
        NamePattern.parse("{a,b}" * 7)
