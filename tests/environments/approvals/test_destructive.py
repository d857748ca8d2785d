"""The ready policy on a table of destructive commands and their disguises, and on one of harmless look-alikes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from environments.approvals import destructive
from environments.approvals.reading.budget import MAX_CHARACTERS


def table(name: str) -> list[tuple[str, str]]:
    """The commands of a table, each with the heading that it stands under."""
    return list(_lines(Path(__file__).with_name(name).read_text()))


def _lines(text: str) -> Iterator[tuple[str, str]]:
    heading = ""
    for line in text.splitlines()[1:]:
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif line:
            yield line.replace("\\n", "\n").replace("\n\\t", "\n\t"), heading


DESTRUCTIVE, HARMLESS = table("destructive.txt"), table("harmless.txt")


@pytest.mark.parametrize(("command", "heading"), DESTRUCTIVE)
def test_a_destructive_command_is_known_whatever_its_disguise(command: str, heading: str) -> None:
    reason = destructive(command)
    assert reason is not None
    assert any(word in reason for word in heading.split("|")), reason


@pytest.mark.parametrize(("command", "heading"), HARMLESS)
def test_a_harmless_command_is_let_through(command: str, heading: str) -> None:
    assert destructive(command) is None


@pytest.mark.parametrize(
    ("command", "cwd", "is_destructive"),
    [
        ("rm -rf etc", "/", True),
        ("rm -rf nginx", "/etc", True),
        ("rm -rf ../lib", "/usr/share", True),
        ("rm -rf build", "/home/alice/project", False),
        ("rm -rf ../other", "/home/alice/project", False),
        ("rm -rf .", "/home/alice/project", True),
        ("rm -rf .ssh", "/root", True),
    ],
)
def test_relative_paths_are_taken_from_the_directory(command: str, cwd: str, is_destructive: bool) -> None:
    assert (destructive(command, cwd) is not None) == is_destructive


SIGNS = "'\"\\$`;&|()<>{}[]*?~#!=+ \t\n\0\ufffc\ud800é"
WORDS = (
    "$( ${ $(( << <<- <<< <( && || ;; ${x:- $' $\" EOF / .. rm_-rf sh_-c eval xargs find_._-exec sudo env_-S "
    "python3_-c awk case_x_in esac for_i_in do done if f() function a= a=( psql_-c {a,b} {1..9} git_push cd chmod_-R "
    "dd_of= echo printf %s \\x41 kill"
)
PIECES = st.sampled_from([*SIGNS, *WORDS.split(" "), *(f" {word.replace('_', ' ')} " for word in WORDS.split(" "))])


@given(st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=60).map("".join))
@example("$'\\xff\\UFFFFFFFF'")
@example("printf '%*s'")
@example("${a[9999999999999999999]}")
def test_no_text_makes_it_raise(text: str) -> None:
    assert destructive(text) != ""
    assert destructive(text, "/home/alice") != ""


@given(st.sampled_from(DESTRUCTIVE), st.integers(0, 60), st.integers(0, 60), st.text(max_size=3))
def test_no_damaged_command_makes_it_raise(entry: tuple[str, str], start: int, length: int, middle: str) -> None:
    command = entry[0]
    assert destructive(command[:start] + middle + command[start + length :]) != ""


REPEATED = (
    "$( ' \" \\ $(( (( ( ) ` { {a,b} , a| & a; (a) (a; <<a cat_<<a\\n $a ${a:- a=$a$a; case_x_in_ if_ "
    "done; f(){_ a|xargs_ sudo_ env_ eval_ eval_' s*_ [ >a_ 2> #\\n a=( a=b_ cd_a; $ \\n \\\\n trap_' */ /* f& {, "
    "system('a') rmtree("
)
UNITS = [unit.replace("_", " ").replace("\\n", "\n") for unit in REPEATED.split(" ")]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("before", ["", "psql -c '", 'python3 -c "'])
def test_it_comes_to_an_end_soon_whatever_the_text_holds(unit: str, before: str) -> None:
    # It takes a fraction of a second, and minutes where anything is not linear, which the time limit of tests finds.
    destructive((before + unit * MAX_CHARACTERS)[: MAX_CHARACTERS // 2])


def test_a_search_in_many_places_is_judged_soon() -> None:
    # In minutes where anything is not linear, as above.
    assert destructive("find " + ". " * (MAX_CHARACTERS // 3) + "-name x -delete") is None


def test_a_text_that_is_too_long_is_not_let_through() -> None:
    reason = destructive("echo " + "x" * 10_000_000)
    assert reason is not None and "too long to be judged" in reason


@pytest.mark.parametrize("unit", ["$(", "(", "{ ", "sh -c '$(", "if "])
def test_what_is_nested_too_deep_is_not_let_through(unit: str) -> None:
    reason = destructive(unit * 5000)
    assert reason is not None and "to be judged" in reason


def test_values_made_of_values_do_not_grow_without_bound() -> None:
    assert destructive("a=xxxxxxxx;" + "a=$a$a$a$a;" * 40 + "echo $a") is None
    assert destructive("a=xxxxxxxx;" + "a=$a$a$a$a;" * 40 + "$a") is not None
