from __future__ import annotations

from hermes_tools.exit_codes import meaning_of

NO_LINE = "no line matched"
DIFFERENT = "the two differ"
MEANINGS = [
    ("grep x f", 1, NO_LINE),
    ("rg x", 1, NO_LINE),
    ("cat f | grep x", 1, NO_LINE),
    ("make; /usr/bin/grep x f > out 2>&1  # look", 1, NO_LINE),
    ("false || grep x f", 1, NO_LINE),
    ("LC_ALL=C sudo -u root grep x f", 1, NO_LINE),
    ("env A=1 nice -n 5 diff a b", 1, DIFFERENT),
    ("bash -c 'cd a; grep x f'", 1, NO_LINE),
    ("(cd a; grep x f) 2>/dev/null", 1, NO_LINE),
    ("{ grep x f; }", 1, NO_LINE),
    ("grep x <<END\nfirst\nEND\n", 1, NO_LINE),
    ("cat <<A <<'B C' | grep x\n$(first\nA\n'\nB C\n", 1, NO_LINE),
    ("while read -r line; do false; done < f | grep x", 1, NO_LINE),
    ('cd "$(git rev-parse --show-toplevel)"; grep -c \';\' "$FILE" ${F} $(ls) `pwd`', 1, NO_LINE),
    ("grep \\\n  x f", 1, NO_LINE),
    ("bash -lc 'grep x f'", 1, NO_LINE),
    ("sudo -u root timeout -k 1 5s grep x f", 1, NO_LINE),
    ("diff <(sort a) <(sort b)", 1, DIFFERENT),
    ("cmp a b", 1, DIFFERENT),
    ("git -C sub --no-pager diff --exit-code", 1, DIFFERENT),
    ("git grep x", 1, NO_LINE),
    ("test -f x", 1, "condition is false"),
    ("[ -f x ]", 1, "condition is false"),
    ("[[ -f x && -f y ]]", 1, "condition is false"),
    ("find / -name x", 1, "some directories could not be read"),
    ("pgrep x", 1, "no process matched"),
    ("command -v x", 1, "some of the names were not found"),
    ("python3 -m pytest -q", 1, "some tests failed"),
    ("uv run --extra dev pytest", 1, "some tests failed"),
    ("pytest", 5, "no tests were collected"),
    ("curl -sf http://x", 22, "HTTP status of 400 or above"),
    ("curl http://x", 28, "time-out"),
    ("timeout 5 make", 124, "its time was up"),
    ("nosuch", 127, "not found"),
    ("./x", 126, "could not be executed"),
    ("anything", 137, "signal 9 (SIGKILL)"),
    ("yes | head", 141, "signal 13 (SIGPIPE)"),
]
UNKNOWN = [
    ("grep x f", 0),
    ("grep x f", 2),
    ("grep x f | wc -l", 1),
    ("grep x f; exit 1", 1),
    ("! grep x f", 1),
    ("if grep x f; then false; fi", 1),
    ("for f in *; do grep x $f; done", 1),
    ("case x in x) grep x f;; esac", 1),
    ("grep x f &", 1),
    ("f() { grep x f; }; f", 1),
    ("grep() { cat; }; grep x f", 1),
    ("set -euo pipefail; ls | grep x f", 1),
    ("cd a || exit 1; grep x f", 1),
    ("bash -ec 'a; grep x f'", 1),
    ('bash -c "cd $A; grep x f"', 1),
    ("echo ';' grep x f", 1),
    ("env -S 'grep x' f", 1),
    ("cat <<A; grep x f\nfirst\n", 1),
    ("echo 'grep x f", 1),
    ("echo $(grep x f)", 1),
    ("$PROGRAM x", 1),
    ("git push", 1),
    ("make", 2),
    ("exit 200", 200),
    ("", 1),
    ("((", 1),
    ("grep x " + "f " * 100_000, 1),
    ("(" * 1000 + "grep x f" + ")" * 1000, 2),
    ("bash -c " * 1000, 1),
]


def test_the_last_command_decides_the_meaning_of_the_exit_code() -> None:
    assert [row for row in MEANINGS if row[2] not in str(meaning_of(row[0], row[1]))] == []


def test_an_earlier_command_of_a_list_may_have_decided_the_exit_code() -> None:
    unless = "unless a command before its && has failed"
    decided = ["cd a && grep x f", "a && (b; grep x f)", "a && { b; grep x f; }", "a && b | grep x"]
    assert [command for command in decided if not str(meaning_of(command, 1)).endswith(unless)] == []
    others = ["a && b; grep x f", "(a && b)\ngrep x f", "a && b || grep x f"]
    certain = "no line matched, which is no error"
    assert [command for command in others if not str(meaning_of(command, 1)).endswith(certain)] == []


def test_an_unknown_exit_code_has_no_meaning() -> None:
    assert [row for row in UNKNOWN if meaning_of(*row) is not None] == []
