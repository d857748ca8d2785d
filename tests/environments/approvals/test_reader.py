"""The reader finds the commands in a text, and detects texts that the parser reads unlike the shell."""

from __future__ import annotations

import pytest

from environments.approvals.budget import MAX_CHARACTERS
from environments.approvals.command import UNKNOWN
from environments.approvals.reader import read


def lines(text: str) -> list[str]:
    """Return the found commands as lines, without repetitions: the body of a loop is read more than once."""
    reading = read(text)
    assert reading.unread == ""
    return list(dict.fromkeys(one.line.replace(UNKNOWN, "?") for one in reading.commands if one.words))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ls -l \\\n  a", ["ls -l a"]),
        ("r\\\nm -rf /", ["rm -rf /"]),
        ("rm >/dev/null -rf /", ["rm -rf /"]),
        ("rm 2>e -rf <i /", ["rm -rf /"]),
        ("r\0m -rf /", ["rm -rf /"]),
        ("r``m -rf /", ["rm -rf /"]),
        ("cat <<E -n\na\nE", ["cat -n"]),
        ("cat <<E | sh\nrm a\nE", ["cat", "sh", "rm a"]),
        ("cat <<E\n`rm $x\n`\nE", ["rm ?", "cat"]),
        ("cat <<E\n$ a\nE\nls", ["cat", "ls"]),
        ("${x:-rm -rf /}", ["rm -rf /"]),
        ("x=/; rm -rf $x", ["rm -rf /"]),
        ("D=$HOME; rm -rf $D", ["rm -rf ~"]),
        ('x=a; rm "$x $x" "- ${x}" "$(echo b) $x"', ["echo b", "rm a a - a b a"]),
        ("rm -rf '~'", ["rm -rf ./~"]),
        ("for x in a b; do rm $x; done", ["rm a", "rm b"]),
        ("for x; do rm a; done", ["rm a"]),
        ("f() { rm $1; }; f a", ["f a", "rm a"]),
        ("x=a; if x=b; then :; elif x=c; then :; else rm $x; fi", [":", "rm b", "rm c"]),
        ("x=a; if ls; then x=b; fi; rm $x", ["ls", "rm a", "rm b"]),
        ("x=a; while ls; do rm $x; x=b; done", ["ls", "rm a", "rm b"]),
        ("x=a; for y in b c; do rm $x; x=$y; done", ["rm a", "rm b", "rm c"]),
        ("a=(b c); rm ${a[1]}", ["rm ?"]),
        ("declare -n x=y; y=a; x=b; rm $y", ["declare -n x=y", "rm ?"]),
        ("[[ -d / ]] && ls", ["[[ -d / ]]", "ls"]),
        ("a=(rm -rf); ${a[@]} /", ["rm -rf /"]),
        ('a=("x y" z); rm "${a[@]}"', ["rm x y z"]),
        ("echo 'rm a' > x; sh x", ["echo rm a", "sh x", "rm a"]),
        ("ls && x=a || x=b; rm $x", ["ls", "rm a", "rm b"]),
        ("x=a; while ls; do rm $x; x=$x/b; done", ["ls", "rm a", "rm a/b", "rm ?"]),
        ("if ls; then cd a; else cd b; fi; rm x", ["ls", "cd a", "cd b", "rm x"]),
        ("trap 'rm $x' EXIT; x=a", ["trap rm $x EXIT", "rm a"]),
        ("f() { rm $x; }; trap f EXIT; x=a", ["trap f EXIT", "f", "rm a"]),
        ("ln -s /a x; rm -r x/b", ["ln -s /a x", "rm -r /a/b"]),
        ("cat - <<E\nE", ["cat -"]),
    ],
)
def test_the_commands_of_a_text_are_found(text: str, found: list[str]) -> None:
    assert lines(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "ls )",
        "{r,m} -rf /",
        "ls\n\\rm -rf /",
        "cat <<'X'; ls",
        'echo "$\\\n(rm -rf /)"',
        "rm$IFS-rf$IFS/",
        "cat <<E\n$ \nE\n\nrm -rf /\n",
        "cat <<E\n  E\nE\n",
        'echo "${x:-\'}"; rm -rf /; echo "\'}"',
        "{ ls; } > a -rf",
        ": ${x:-a <(rm a)b}",
        "sh >x 0<<< 'rm a'",
    ],
)
def test_a_text_whose_tree_is_not_that_of_the_shell_is_not_taken_as_read(text: str) -> None:
    assert "cannot be seen through" in read(text).unread


def test_characters_outside_of_ascii_are_part_of_words() -> None:
    # If parsed unchanged, the first crashes the process now and then, and the second splits a word.
    assert all("cannot be seen through" in read("{\U0010ffff").unread for _ in range(300))
    assert lines("rm \u2028/a été; rm -rf <<é\nx\né") == ["rm \u2028/a été", "rm -rf"]
    assert "fork bomb" in read("é(){ é|é& };é").findings[0]


@pytest.mark.parametrize("unit", [")", "(a)", "a=(", "a|", "$a", "[", "a;", "<<E\n$x\nE\n", ">a "])
def test_reading_ends_soon_whatever_a_text_holds(unit: str) -> None:
    # An unbounded reader would take minutes, and exceed the time limit of tests.
    assert "judged" in read(unit * (MAX_CHARACTERS // len(unit))).unread


@pytest.mark.parametrize(("opening", "closing"), [("while a; do ", "; done"), ("for i in b c; do ", "; done")])
def test_loops_in_each_other_are_read_soon(opening: str, closing: str) -> None:
    # If each level doubled the time, this would take hours.
    assert "rm x" in lines(opening * 40 + "rm x" + closing * 40)


def test_functions_in_each_other_are_read_soon() -> None:
    assert "judged" in read("f(){ " * 5000 + "ls" + "; }" * 5000).unread
