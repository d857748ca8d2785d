"""Any text is judged, without an error and in linear time. Any fuzzer can drive `check`."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from environments.approvals import destructive
from environments.approvals.budget import MAX_CHARACTERS

SIGNS = "'\"\\$`;&|()<>{}[]*?~#!=+ \t\n\0\ufffc\ud800é"
WORDS = (
    "$( ${ $(( << <<- <<< <( && || ;; ${x:- $' $\" EOF / .. rm_-rf sh_-c eval xargs find_._-exec sudo env_-S "
    "python3_-c awk case_x_in esac for_i_in do done if f() function a= a=( psql_-c {a,b} {1..9} git_push cd chmod_-R "
    "dd_of= echo printf %s \\x41 kill"
)
PIECES = st.sampled_from([*SIGNS, *WORDS.split(" "), *(f" {word.replace('_', ' ')} " for word in WORDS.split(" "))])


def check(text: str) -> None:
    """Nothing is raised, and a reason has words."""
    assert destructive(text) != ""
    assert destructive(text, "/home/alice") != ""


@settings(max_examples=400)
@given(st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=60).map("".join))
@example("$'\\xff\\UFFFFFFFF'")
@example("printf '%*s'")
@example("${a[9999999999999999999]}")
def test_no_text_raises_an_error(text: str) -> None:
    check(text)


REPEATED = (
    "$( ' \" \\ $(( (( ( ) ` { {a,b} , a| & a; (a) (a; <<a cat_<<a\\n $a ${a:- a=$a$a; case_x_in_ if_ "
    "done; f(){_ a|xargs_ sudo_ env_ eval_ eval_' s*_ [ >a_ 2> #\\n a=( a=b_ cd_a; $ \\n \\\\n trap_' */ /* f& {, "
    "system('a') rmtree("
)
UNITS = [unit.replace("_", " ").replace("\\n", "\n") for unit in REPEATED.split(" ")]


@pytest.mark.parametrize("before", ["", "psql -c '", 'python3 -c "'])
def test_any_text_is_judged_in_linear_time(before: str) -> None:
    # A unit takes a second at most. Anything that is not linear takes minutes, and runs into the tests' time limit.
    for unit in UNITS:
        destructive((before + unit * MAX_CHARACTERS)[: MAX_CHARACTERS // 5])


def test_a_search_in_many_places_is_judged_soon() -> None:
    # Anything that is not linear takes minutes, as above.
    assert destructive("find " + ". " * (MAX_CHARACTERS // 3) + "-name x -delete") is None
