"""What the session exports, for a command beside it that asks for it."""

from __future__ import annotations

import threading

import pytest

from environments import BaseEnvironment, CancelScope
from environments.conformance.check import wait_until


def _beside(env: BaseEnvironment, command: str = "echo $KEPT") -> str:
    return env.execute_oneshot(command, session_env=True).output.removesuffix("\n")


def test_it_is_what_the_last_ended_command_left_whatever_runs_since(each_way: BaseEnvironment) -> None:
    env = each_way
    env.execute("true")
    for number in range(5):
        env.execute(f"export KEPT={number}")
        running = threading.Thread(target=env.execute, args=("export KEPT=unseen; touch began; sleep 1000",))
        running.start()
        assert wait_until(lambda: env.execute_oneshot("rm began 2>/dev/null").ok)
        assert _beside(env) == str(number)
        env.interrupt()
        running.join()
        env.execute("true")


def test_whoever_reads_the_running_command_can_ask_too(each_way: BaseEnvironment) -> None:
    heard: list[str] = []
    for number in range(5):
        each_way.execute(f"export KEPT={number}")
        result = each_way.execute("echo on; echo and on", on_output=lambda _: heard.append(_beside(each_way)))
        assert result.output == "on\nand on\n"
        assert set(heard) == {str(number)}
        heard.clear()


@pytest.mark.parametrize("end", ["exit 3", "exec true", "kill -9 $$", "set -e; false"])
def test_it_outlives_the_sessions_shell(each_way: BaseEnvironment, end: str) -> None:
    each_way.execute("export KEPT=1")
    each_way.execute(end, timeout=60)
    assert _beside(each_way) == "1"


def test_before_any_command_it_is_what_the_target_has(
    each_way: BaseEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEPT", "handed on")
    each_way.passthrough.allow(["KEPT"])
    assert _beside(each_way) == "handed on"
    each_way.execute("unset KEPT")
    assert _beside(each_way, "echo ${KEPT-unset}") == "unset"


def test_what_was_allowed_since_the_last_command_is_there(
    env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    env.execute("export OTHER=1")
    monkeypatch.setenv("KEPT", "late")
    env.passthrough.allow(["KEPT"])
    assert _beside(env, "echo $KEPT $OTHER") == "late 1"


def test_what_is_no_variable_of_the_sessions_stays_behind(env: BaseEnvironment) -> None:
    env.execute(
        "declare -ax LIST=(a b); declare -rx FIXED=1; declare -ix COUNT=2; f() { :; }; umask 077; cd /usr; set -a"
    )
    assert _beside(env, "echo $FIXED $COUNT ${LIST-unset}; umask; pwd; echo $-; f 2>/dev/null || echo none") == (
        f"1 2 unset\n{env.execute_oneshot('umask').output}/usr\n{env.execute_oneshot('echo $-').output}none"
    )


def test_its_own_marker_is_not_taken_from_the_session(each_way: BaseEnvironment) -> None:
    each_way.execute("set -a; export KEPT=1")
    marker = "echo $HERMES_COMMAND"
    assert _beside(each_way, marker) != each_way.execute(marker).output.strip()
    assert not _beside(each_way, "export -p | grep _hx_")


def test_what_is_said_about_a_command_says_nothing_of_it(each_way: BaseEnvironment) -> None:
    each_way.execute("export KEPT='a secret\nvalue'")
    for command in ("echo $?; if", "set -v; echo $?", "nothing_of_the_name", "echo 'open"):
        result = each_way.execute_oneshot(command, session_env=True)
        assert "secret" not in result.output
    assert _beside(each_way, "echo $?") == "0"


def test_a_terminal_has_it_too(env: BaseEnvironment) -> None:
    env.execute("export KEPT='on a terminal'")
    process = env.start("tty >/dev/null && echo $KEPT", pty=True, session_env=True)
    assert process.wait(60) == 0 and process.read().strip() == "on a terminal"


def test_what_a_scripts_tool_calls_make_of_paths_does_not_count(env: BaseEnvironment) -> None:
    env.execute("export PYTHONPATH=/mine; unset VIRTUAL_ENV")
    with CancelScope(is_trusted=False).active():
        env.execute("export PYTHONPATH=/theirs VIRTUAL_ENV=/theirs KEPT=1")
    assert _beside(env, "echo $PYTHONPATH ${VIRTUAL_ENV-unset} $KEPT") == "/mine unset 1"
