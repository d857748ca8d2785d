"""Commands that can change nothing in the shell: they stand in its script as they are, and nothing is reported."""

from __future__ import annotations

import re

import pytest

from environments import BaseEnvironment
from environments.shell.harmless import changes_nothing

KNOWN = "known () \n{ \n    A=1\n}\nalias aliased='A=1'\nalias -- +x='A=1'\n"


@pytest.fixture
def session(env: BaseEnvironment) -> BaseEnvironment:
    """Returns an environment with a shell that has reported what it holds."""
    env.execute("cd .")
    return env


@pytest.mark.parametrize("command", ["echo one", "echo 2", "printf %s+%s a b", "ls -d /", "true", "false", "123", "-x"])
def test_a_harmless_command_comes_to_what_any_other_does(session: BaseEnvironment, command: str) -> None:
    plain = session.execute(command)
    other = session.execute(f"{command} ;")
    numbered = [re.sub("line [0-9]+", "line N", result.output) for result in (plain, other)]
    assert (numbered[0], plain.exit_code) == (numbered[1], other.exit_code)
    assert session.execute("echo next").output == "next\n"


@pytest.mark.parametrize(
    ("first", "command", "output", "exit_code"),
    [
        ("set -x", "echo a", "++ echo a\na\n", 0),
        ("set -v", "echo a", "echo a\na\n", 0),
        ("trap 'echo D' DEBUG", "true", "D\n", 0),
        ("trap 'echo E' ERR", "false", "E\n", 1),
        ("set -E; trap 'echo E' ERR", "true", "", 0),
        ("shopt -s extdebug; trap 'true' DEBUG", "echo a", "a\n", 0),
    ],
)
def test_what_a_session_watches_its_commands_by_sees_harmless_ones_too(
    session: BaseEnvironment, first: str, command: str, output: str, exit_code: int
) -> None:
    session.execute(first)
    result = session.execute(command, timeout=20)
    assert (result.output, result.exit_code) == (output, exit_code)


HARMLESS = [
    "ls",
    "./run -x --y=1 a,b",
    "ls -la /tmp | sort",
    "make -j4 && make test",
    "grep -rn 'def x(' src/*.py 2>/dev/null | head -n 5",
    'git commit -m "one; two && three"',
    'python -c \'import os; os.environ["A"] = "1"\' > out.txt 2>&1',
    "true || false ; echo done",
    "cat <in.txt >>out.txt",
    "ls ~/x [a-z]?",
]
CHANGING = [
    "A=1",
    "A=1 ls",
    "ls; A=1",
    "ls && cd /",
    "ls | while read x",
    "echo 'a' ; export A",
    "ls; . ./x",
    "echo $(cd /)",
    'echo "${A:=1}"',
    'echo "`A=1`"',
    "echo `A=1`",
    "echo $((A=1))",
    "ls & wait",
    "ls\nA=1",
    "f() { :; }",
    "f () { echo; }",
    "{ A=1; }",
    "(ls)",
    "! ls",
    "ls # x\nA=1",
    "echo 'a\\' ; A='b'",
    "ls 3>x",
    "ls >&2 ; umask 0",
    "known",
    "ls | known",
    "aliased",
    "'cd' /",
    "\\cd /",
    "",
    " ",
    "ls ;",
    "ls && ",
    "cat <<X",
]


@pytest.mark.parametrize("command", HARMLESS)
def test_what_only_runs_programs_is_harmless(command: str) -> None:
    assert changes_nothing(command, KNOWN)


@pytest.mark.parametrize("command", CHANGING)
def test_what_may_change_the_shell_is_not_harmless(command: str) -> None:
    assert not changes_nothing(command, KNOWN)


def test_a_command_made_to_be_looked_at_for_long_is_not() -> None:
    for command in ("a " * 490 + "$", "a" * 990 + "$", "a>b" + " " * 900 + "$", "a " + "'x'" * 300 + "$"):
        assert not changes_nothing(command, KNOWN)


def test_what_a_pipe_of_programs_leaves_is_known_without_a_report(session: BaseEnvironment) -> None:
    session.execute("export KEPT=kept; f() { echo function; }")
    assert session.execute("echo 'a b' | sort 2>/dev/null && echo \"c\"").output == "a b\nc\n"
    session.execute_oneshot(f"kill -9 {session.execute('echo $$').output}")
    assert session.execute("echo $KEPT; f").output == "kept\nfunction\n"


def test_a_function_of_the_name_builtin_outlives_harmless_commands(session: BaseEnvironment) -> None:
    session.execute("builtin() { echo mine; }")
    assert [session.execute("echo a", timeout=20).output for _ in range(3)] == ["a\n"] * 3
    assert session.execute("builtin", timeout=20).output == "mine\n"


def test_a_command_that_is_a_number_can_be_ended_and_leaves_the_shell(session: BaseEnvironment) -> None:
    session.execute("7() { while :; do sleep 0.01; done; }; kept=1")
    assert session.execute("7", timeout=0.3).timed_out
    assert session.execute("echo $kept").output == "1\n"


def test_a_harmless_command_that_is_ended_leaves_the_shell(session: BaseEnvironment) -> None:
    session.execute("kept=1; cd /")
    assert session.execute("sleep 1000", timeout=0.3).timed_out
    assert session.execute("echo $kept").output == "1\n"


def test_a_one_shot_leaves_nothing_of_itself_in_the_shell_that_forks_for_it(env: BaseEnvironment) -> None:
    for _ in range(3):
        result = env.execute_oneshot('echo "$# ${FUNCNAME-none} $(declare -F | wc -l) ${x-unset}"; x=1; cd /; exit 3')
        assert (result.output, result.exit_code) == ("0 none 1 unset\n", 3)
    assert env.execute_oneshot("return 1").exit_code != 0
    assert env.execute_oneshot("pwd").output.strip() == env.cwd


def test_a_one_shot_runs_from_directories_of_all_names(env: BaseEnvironment) -> None:
    name = "it's $HOME `x` \\ \"\n ü*"
    env.execute(["mkdir", "-p", name])
    for command in ("pwd", "true; pwd" + " " * 300):
        assert env.execute_oneshot(command, cwd=name).output == f"{env.cwd}/{name}\n"
    assert env.execute_oneshot("cd; pwd").output == env.execute_oneshot("pwd", cwd="~").output
