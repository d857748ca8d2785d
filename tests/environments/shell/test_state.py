"""State of a session across its shells, whatever ends a shell, and the invisibility of internal shell code."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from environments import BaseEnvironment

ENDS = (
    "exit 3",
    "exec true",
    "g() { exec true; }; g",
    "kill -9 $$",
    "kill -SEGV $$",
    "printf 'trap \"echo bye\" EXIT\\nexit 2\\n' >trapping; . ./trapping",
    "set -e; false",
    "set -t; echo once",
    "export POSIXLY_CORRECT=1; exit 0",
    "my-func() { :; }; export POSIXLY_CORRECT=1; exit 0",
    "readonly __hx_c; exit",
    "__hx_say() { :; }; exit",
    "builtin() { :; }; exit 4",
    "exec() { :; }; exit 4",
    "alias if='echo no' '{'='echo no' '[['='echo no'; exit 4",
)


def _state(env: BaseEnvironment) -> str:
    return env.execute("echo $EXPORTED; f; shopt -p extglob; umask; set -o | grep pipefail; pwd; echo $OLDPWD").output


def test_the_state_of_a_session_outlives_any_end_of_its_shell(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    env.execute(
        "shopt -s extglob\nexport EXPORTED='a\nb'; f() { case $1 in +([0-9])) echo num;; *) echo ff;; esac; }; "
        f"umask 027; set -o pipefail; cd {tmp_path}; cd there"
    )
    before = _state(env)
    assert "ff" in before
    failed = []
    for end in ENDS:
        env.execute(end, timeout=60)
        env.execute("set +e; unset POSIXLY_CORRECT; set +o posix; unset -f builtin exec; unalias -a")
        if (after := _state(env)) != before or env.execute("f 12").output != "num\n":
            failed.append((end, after))
    assert failed == []


def test_noise_of_a_background_job_is_never_run_as_shell_code(env: BaseEnvironment, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    for stderr, to in (("merge", ""), ("separate", ">&2")):
        job = f"(while :; do echo 'touch {trap}'; printf 'x\\0y'; done {to}) &"
        env.execute(f"{job} sleep .1; exit 0", stderr=stderr)
        assert env.execute("echo next").output == "next\n"
        env.execute("export A=1; pkill -P $$ ; :", timeout=20)
    assert not trap.exists()


@pytest.mark.parametrize("stderr", ["merge", "separate"])
def test_state_is_reported_whole_although_a_job_writes_to_the_same_channels(env: BaseEnvironment, stderr: str) -> None:
    env.execute("(for i in $(seq 300); do echo noise; echo noise >&2; done; sleep 1) & export A='x\ny'", stderr=stderr)
    env.execute("kill -9 $$")
    assert env.execute('echo "$A"').output == "x\ny\n"


SEEN = (
    ("set -x", "echo a 2>/dev/null", "+ echo a\na\n"),
    ("set -v", "echo a", "echo a\na\n"),
    ("PS4='trace '", "echo a", "a\n"),
    ("trap 'echo D' DEBUG", ":", "D\n"),
    ("trap 'echo E' ERR", "false", "E\n"),
    ("set -E; trap 'echo E' ERR", "true", ""),
    ("shopt -s extdebug; trap 'true' DEBUG", "echo a", "a\n"),
    ("set -u", "echo a", "a\n"),
    ("set -a; A=1", "env | grep -c '^_[0-9a-f][0-9a-f][0-9a-f]='", "0\n"),
    ("set -a", f": {'x' * 300_000}; /bin/echo one", "one\n"),
    ("set -o noclobber", "echo a", "a\n"),
    ("IFS=0", "echo a", "a\n"),
    ("export POSIXLY_CORRECT=1", "echo a", "a\n"),
    ("printf() { echo no; }; read() { echo no; }; declare() { echo no; }", "echo a", "a\n"),
    ("command() { echo no; }; trap() { echo no; }; export() { echo no; }", "echo a", "a\n"),
    ("builtin() { echo mine; }", "builtin", "mine\n"),
    ("exec() { echo mine; }", "exec; echo a", "mine\na\n"),
    ("exec() { echo mine; }; builtin() { echo too; }; alias if=echo", "exec; builtin; if a", "mine\ntoo\na\n"),
    ("eval() { echo no; }; exit() { echo no; }; unset() { echo no; }", "echo a", "a\n"),
    ("alias if='echo it'", "if a", "it a\n"),
    ("alias '{'='echo it' '[['='echo it' '!'='echo it'", "{ a; [[ b; ! c", "it a\nit b\nit c\n"),
    ("alias then=x else=x fi=x for=x while=x do=x done=x case=x in=x esac=x x=", "echo a", "a\n"),
    ("alias if=x; shopt -u expand_aliases", "if true; then echo a; fi", "a\n"),
    ("alias if=x; unset BASH_ALIASES; unalias if", "echo a", "a\n"),
    ("unset -f $(compgen -A function)", "echo a", "a\n"),
    ("exec 3>lock 9>lock", "echo a", "a\n"),
    ("alias echo='echo aliased'", "echo a", "aliased a\n"),
    ("cd .", "-x 2>/dev/null || echo $?", "127\n"),
)
"""Settings of a session, a command, and its output."""


def test_settings_of_a_session_neither_see_nor_break_internal_shell_code(env: BaseEnvironment) -> None:
    failed = []
    for number, (first, command, output) in enumerate(SEEN):
        with env.session(f"row {number}") as session:
            session.execute(first, timeout=20)
            for _ in range(2):
                result = session.execute(command, timeout=20)
                text = result.output.replace("++", "+")
                if (text, result.timed_out) != (output, False):
                    failed.append((first, command, result))
    assert failed == []


def test_a_one_shot_leaves_nothing_of_itself_in_the_shell_that_forks_for_it(env: BaseEnvironment) -> None:
    for _ in range(3):
        result = env.execute_oneshot('echo "$# ${FUNCNAME-none} $(declare -F | wc -l) ${x-unset}"; x=1; cd /; exit 3')
        assert (result.output, result.exit_code) == ("0 none 1 unset\n", 3)
    assert env.execute_oneshot("return 1").exit_code != 0
    assert env.execute_oneshot("-x").exit_code == 127


def test_a_command_may_run_in_directories_of_all_names_with_variables_of_its_own(env: BaseEnvironment) -> None:
    name = "it's $HOME `x` \\ \"\n ü*"
    env.execute(["mkdir", "-p", name, "-"])
    for command in ("pwd", "true; pwd" + " " * 300):
        for run in (env.execute, env.execute_oneshot):
            assert run(command, cwd=name).output == f"{env.cwd}/{name}\n"
    assert env.execute("pwd", cwd="-").output == f"{env.cwd}/-\n"
    process = env.start("pwd; echo $A", cwd="-", env={"A": "started"})
    process.wait(30)
    assert process.read() == f"{env.cwd}/-\nstarted\n"


def test_read_only_directory_variables_break_no_session(env: BaseEnvironment) -> None:
    for name in ("PWD", "OLDPWD"):
        with env.session(name) as session:
            session.execute(f"cd /usr; readonly {name}; exit 3", timeout=60)
            assert session.execute("pwd", timeout=60).output == "/usr\n", name
            assert session.execute("cd / 2>/dev/null; /bin/pwd", timeout=60).output == "/\n", name


def test_a_signal_to_the_idle_shell_ends_no_command_that_did_not_run(bash_or_sh: BaseEnvironment) -> None:
    for sent in ("TERM", "HUP", "INT", "KILL", "USR1") * 5:
        for run in (bash_or_sh.execute, bash_or_sh.execute_oneshot):
            os.kill(int(run("echo $$").output), signal.Signals[f"SIG{sent}"])
            assert run("echo ran", timeout=60).output == "ran\n", (sent, run)


def test_a_shell_that_ends_behind_one_line_answers_for_no_other(env: BaseEnvironment) -> None:
    for _ in range(20):
        env.execute("set -t; :", timeout=60)
        assert env.execute("echo ran", timeout=60).output == "ran\n"


def test_a_command_that_breaks_its_shell_costs_at_most_its_own_time_out(env: BaseEnvironment) -> None:
    env.execute("export KEPT=1")
    for command in (
        "set -n",
        "ulimit -n 3",
        "for v in $(compgen -A arrayvar); do unset $v; done",
    ):
        result = env.execute(command, timeout=1)
        assert "replaced" in (result.note or ""), result
        assert env.execute("echo $KEPT", timeout=60).output == "1\n", command


TIED = (
    "export BASH_COMPAT=4.2",
    "export IGNOREEOF=3",
    "export POSIXLY_CORRECT=1",
    "export GLOBIGNORE=x; shopt -u dotglob",
    "export BASH_COMPAT=4.2 IGNOREEOF=3 POSIXLY_CORRECT=1 A=1; set -o pipefail",
    "set -o ignoreeof",
    "shopt -s compat43",
    "shopt -s extdebug",
    "shopt -s extdebug; set +E",
)
"""Commands that set a variable and an option tied to each other by bash."""
_TIED_STATE = "declare -p BASH_COMPAT IGNOREEOF POSIXLY_CORRECT GLOBIGNORE 2>/dev/null; set +o; shopt -p"


@pytest.mark.parametrize("end", ["exit 1", "sleep 1000"])
def test_variables_that_go_with_an_option_outlive_a_shell_and_a_time_out(end: str, env: BaseEnvironment) -> None:
    failed = []
    for number, text in enumerate(("", *TIED)):
        with env.session(f"row {number}") as session:
            session.execute(text)
            before = session.execute(_TIED_STATE).output
            session.execute(end, timeout=0.2)
            if (after := session.execute(_TIED_STATE).output) != before:
                failed.append((text, before, after))
    assert failed == []


@pytest.mark.parametrize("end", ["exit 1", "kill -9 $$", "sleep 1000"])
def test_functions_and_aliases_that_hide_builtins_are_kept_for_the_next_command(end: str, env: BaseEnvironment) -> None:
    env.execute("builtin() { echo B; }; exec() { echo E; }; export -f exec; alias if='echo I' '{'='echo J'")
    for stderr in ("merge", "separate"):
        assert env.execute(end, timeout=0.2, stderr=stderr).output == ""
        assert env.execute("builtin; exec; if a; { b", stderr=stderr).output == "B\nE\nI a\nJ b\n"
    assert env.execute("bash -c exec").output == "E\n"
    assert env.execute("shopt -q expand_aliases; echo $?", cwd="/").output == "0\n"


def test_the_directory_of_a_session_is_that_of_its_shell(bash_or_sh: BaseEnvironment, tmp_path: Path) -> None:
    env, where = bash_or_sh, "command -p env pwd"
    (tmp_path / "a").mkdir()
    for command, place in (
        ("cd /usr; PWD=/tmp", "/usr"),
        ("cd /tmp; unset PWD", "/tmp"),
        ("PWD=.", "/tmp"),
        (f"cd {tmp_path}/a; mv {tmp_path}/a {tmp_path}/b", f"{tmp_path}/b"),
        ("cd /usr; readonly PWD; cd /; :", "/"),
    ):
        result = env.execute(f"{{ {command}; }} 2>/dev/null")
        assert (result.cwd, env.cwd) == (place, place), command
        assert env.execute_oneshot(where).output == f"{place}\n", command
        for end in ("true", "exit 3", "kill -9 $$"):
            env.execute(end)
            assert env.execute(where).output == f"{place}\n", (command, end)
            assert env.execute(f"{where}", cwd="/var").output.endswith("/var\n"), (command, end)
            assert (env.execute(where).output, env.cwd) == (f"{place}\n", place), (command, end)


def test_a_shell_that_ends_before_a_command_begins_moves_no_session(env: BaseEnvironment) -> None:
    here = env.cwd
    for _ in range(10):
        pid = env.execute("echo $$", cwd="/usr").output
        os.kill(int(pid), signal.SIGKILL)
        assert env.execute("pwd").output == f"{here}\n"


@pytest.mark.parametrize("end", ["exit 3", "set -e; false", "kill -9 $$"])
def test_a_command_that_ends_its_shell_in_a_directory_of_its_own_moves_no_session(
    end: str, bash_or_sh: BaseEnvironment
) -> None:
    env = bash_or_sh
    env.execute("cd /usr; cd /var")
    env.execute(end, cwd="/etc")
    assert env.execute('pwd; echo "$PWD $OLDPWD"; cd - >/dev/null; pwd').output == "/var\n/var /usr\n/usr\n"


def test_a_command_that_is_ended_in_posix_mode_prints_no_internal_text(env: BaseEnvironment) -> None:
    for run in (env.execute, env.execute_oneshot):
        result = run("set -o posix; echo on; sleep 100", timeout=0.5)
        assert (result.output, result.exit_code) == ("on\n", 124)
