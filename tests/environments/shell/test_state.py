"""What a session carries from one shell to the next, however a shell ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from targets.processes import is_dead

from environments import BaseEnvironment
from environments.conformance.check import wait_until


def _session(env: BaseEnvironment) -> str:
    return env.execute("echo $EXPORTED; f; shopt -p extglob; umask; set -o | grep pipefail; pwd; echo $OLDPWD").output


def _furnish(env: BaseEnvironment, place: Path) -> str:
    (place / "there").mkdir(exist_ok=True)
    env.execute(
        "shopt -s extglob\nexport EXPORTED='a\nb'; f() { case $1 in +([0-9])) echo num;; *) echo ff;; esac; }; "
        f"umask 027; set -o pipefail; cd {place}; cd there"
    )
    return _session(env)


@pytest.mark.parametrize(
    "end",
    [
        "exit 3",
        "exec true",
        "g() { exec true; }; g",
        "kill -9 $$",
        "kill -SEGV $$",
        "r() { r; }; r",
        "printf 'trap \"echo bye\" EXIT\\nexit 2\\n' >trapping; . ./trapping",
        "set -e; false",
        "set -t; echo once",
        "export POSIXLY_CORRECT=1; exit 0",
        "my-func() { :; }; export POSIXLY_CORRECT=1; exit 0",
        "readonly __hx_c; exit",
        "__hx_say() { :; }; exit",
        "builtin() { :; }; exit 4",
    ],
)
def test_what_it_holds_outlives_any_end_of_its_shell(env: BaseEnvironment, tmp_path: Path, end: str) -> None:
    before = _furnish(env, tmp_path)
    assert "ff" in before
    env.execute(end, timeout=60)
    env.execute("set +e; unset POSIXLY_CORRECT; set +o posix")
    assert _session(env) == before
    assert env.execute("f 12").output == "num\n"


def test_a_shell_killed_between_commands_loses_nothing_that_it_had_reported(
    env: BaseEnvironment, tmp_path: Path
) -> None:
    before = _furnish(env, tmp_path)
    pid = env.execute("echo $$").output.strip()
    env.execute_oneshot(f"kill -9 {pid}")
    assert wait_until(lambda: is_dead(int(pid))), "until then it takes the next command with it"
    assert _session(env) == before


def test_a_time_out_within_a_builtin_loses_nothing(env: BaseEnvironment, tmp_path: Path) -> None:
    before = _furnish(env, tmp_path)
    env.execute("mkfifo pipe")
    assert env.execute("read -r x <pipe", timeout=0.3).timed_out
    assert _session(env) == before


def test_a_variable_that_was_unset_stays_unset(env: BaseEnvironment) -> None:
    env.execute("unset HOME LANG; exit 0")
    assert env.execute('echo "${HOME-none} ${LANG-none}"').output == "none none\n"


def test_noise_of_a_background_job_is_never_run_as_shell_code(env: BaseEnvironment, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    for stderr in ("merge", "separate"):
        for to in ("", ">&2"):
            env.execute(
                f"(while :; do echo 'touch {trap}'; printf 'x\\0y'; done {to}) & sleep .1; exit 0", stderr=stderr
            )
            assert env.execute("echo next").output == "next\n"
            env.execute("export A=1; pkill -P $$ ; :", timeout=20)
    assert not trap.exists()


@pytest.mark.parametrize("stderr", ["merge", "separate"])
def test_state_is_reported_whole_although_a_job_writes_to_the_same_channels(env: BaseEnvironment, stderr: str) -> None:
    env.execute("(for i in $(seq 300); do echo noise; echo noise >&2; done; sleep 1) & export A='x\ny'", stderr=stderr)
    env.execute("kill -9 $$")
    assert env.execute('echo "$A"').output == "x\ny\n"


@pytest.mark.parametrize(
    ("first", "command", "output"),
    [
        ("set -x", "echo a 2>/dev/null", "a\n"),
        ("trap 'echo D' DEBUG", ":", "D\n"),
        ("trap 'echo E' ERR", "false", "E\n"),
        ("set -u", "echo a", "a\n"),
        ("set -a; A=1", "env | grep -c '^_[0-9a-f][0-9a-f][0-9a-f]='", "0\n"),
        ("IFS=0", "echo a", "a\n"),
        ("export POSIXLY_CORRECT=1", "echo a", "a\n"),
        ("printf() { echo no; }; read() { echo no; }; declare() { echo no; }", "echo a", "a\n"),
        ("command() { echo no; }; trap() { echo no; }; export() { echo no; }", "echo a", "a\n"),
        ("builtin() { echo mine; }", "builtin", "mine\n"),
        ("unset -f $(compgen -A function)", "echo a", "a\n"),
        ("set -v", "echo a", "echo a\na\n"),
        ("exec 3>lock 9>lock", "echo a", "a\n"),
        ("shopt -s extdebug", "echo a", "a\n"),
        ("set -o noclobber", "echo a", "a\n"),
        ("alias echo='echo aliased'", "echo a", "aliased a\n"),
        ("PS4='trace '", "echo a", "a\n"),
    ],
)
def test_what_a_session_sets_sees_nothing_of_ours_and_breaks_nothing(
    env: BaseEnvironment, first: str, command: str, output: str
) -> None:
    env.execute(first, timeout=20)
    for _ in range(2):
        result = env.execute(command, timeout=20)
        text = "".join(line for line in result.output.splitlines(keepends=True) if not line.startswith("+"))
        assert (text, result.timed_out) == (output, False)


def test_a_long_command_under_set_a_does_not_fill_the_environment(env: BaseEnvironment) -> None:
    env.execute("set -a")
    assert env.execute(f": {'x' * 300_000}; /bin/echo one").output == "one\n"
    assert env.execute("/bin/echo two").output == "two\n"


def test_a_command_that_begins_with_a_dash_is_a_command(env: BaseEnvironment) -> None:
    assert env.execute("-x").exit_code == 127
    assert env.execute_oneshot("-x").exit_code == 127


def test_a_directory_that_is_gone_is_an_error_and_nothing_runs_elsewhere(env: BaseEnvironment, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    env.execute(f"cd {gone}; rm -rf {gone}; exit 1")
    for run in (env.execute, env.execute_oneshot):
        for _ in range(2):
            result = run("echo ran; touch here")
            assert result.exit_code != 0
            assert "ran\n" not in result.output
    process = env.start("echo ran; touch here")
    assert process.wait(30) != 0
    assert "ran\n" not in process.read()
    assert env.cwd == str(gone)
    assert env.execute("pwd", cwd="/").output == "/\n"
    assert env.execute("echo ran").exit_code != 0
    gone.mkdir()
    assert env.execute("pwd").output == f"{gone}\n"
    env.execute(f"rm -rf {gone}; exit 1")
    assert "here" not in env.execute("cd nosuch; touch here; ls").output.split()
    assert env.execute(f"cd {tmp_path}; pwd").output == f"{tmp_path}\n"
    assert env.cwd == str(tmp_path)


def test_a_directory_for_one_command_may_be_relative_or_of_the_home(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "-").mkdir()
    home = env.execute("echo ~").output
    for run in (env.execute, env.execute_oneshot):
        assert run("pwd", cwd="sub").output == f"{tmp_path}/sub\n"
        assert run("pwd", cwd="sub").cwd == f"{tmp_path}/sub"
        assert run("pwd", cwd="-").output == f"{tmp_path}/-\n"
        assert run("pwd", cwd="~").output == home
        assert run("pwd", cwd="~").cwd + "\n" == home
    process = env.start("pwd", cwd="sub")
    process.wait(30)
    assert process.read() == f"{tmp_path}/sub\n"


def test_variables_for_one_command_are_its_alone(env: BaseEnvironment) -> None:
    env.execute("export A=mine B=kept")
    for run in (env.execute, env.execute_oneshot):
        result = run('echo "$A|$QUOTE|$(env | grep -c "^QUOTE=")"', env={"A": "theirs", "QUOTE": "it's \"\n$HOME"})
        assert result.output == "theirs|it's \"\n$HOME|1\n"
    assert env.execute("echo $A $B ${QUOTE-none}").output == "mine kept none\n"
    process = env.start("echo $A", env={"A": "started"})
    process.wait(30)
    assert process.read() == "started\n"
