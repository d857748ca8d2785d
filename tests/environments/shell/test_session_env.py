"""What the session exports, for a command beside it that asks for it."""

from __future__ import annotations

import pytest

from environments import BaseEnvironment, CancelScope


def _beside(env: BaseEnvironment, command: str = "echo $KEPT") -> str:
    return env.execute_oneshot(command, session_env=True).output.removesuffix("\n")


def test_it_is_what_the_last_ended_command_left_also_for_the_reader_of_a_running_one(
    bash_or_sh: BaseEnvironment,
) -> None:
    heard: list[str] = []
    bash_or_sh.execute("export KEPT=1")
    command = "export KEPT=unseen; echo on; sleep 0.1; echo and on"
    result = bash_or_sh.execute(command, on_output=lambda _: heard.append(_beside(bash_or_sh)))
    assert result.output == "on\nand on\n"
    assert set(heard) == {"1"}
    assert _beside(bash_or_sh) == "unseen"


def test_it_outlives_the_sessions_shell(bash_or_sh: BaseEnvironment) -> None:
    bash_or_sh.execute("export KEPT=1")
    for end in ("exit 3", "exec true", "kill -9 $$", "set -e; false"):
        bash_or_sh.execute(end, timeout=60)
        assert _beside(bash_or_sh) == "1", end


def test_before_any_command_it_is_what_the_target_has(env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "handed on")
    env.passthrough.allow(["KEPT"])
    assert _beside(env) == "handed on"
    env.execute("unset KEPT; export OTHER=1")
    assert _beside(env, "echo ${KEPT-unset}") == "unset"
    monkeypatch.setenv("LATE", "late")
    env.passthrough.allow(["LATE"])
    assert _beside(env, "echo $LATE $OTHER") == "late 1"


def test_what_is_no_variable_of_the_sessions_stays_behind(env: BaseEnvironment) -> None:
    env.execute(
        "declare -ax LIST=(a b); declare -rx FIXED=1; declare -ix COUNT=2; f() { :; }; umask 077; cd /usr; set -a"
    )
    assert _beside(env, "echo $FIXED $COUNT ${LIST-unset}; umask; pwd; echo $-; f 2>/dev/null || echo none") == (
        f"1 2 unset\n{env.execute_oneshot('umask').output}/usr\n{env.execute_oneshot('echo $-').output}none"
    )
    marker = "echo $HERMES_COMMAND"
    assert _beside(env, marker) != env.execute(marker).output.strip()
    assert not _beside(env, "export -p | grep _hx_")


def test_an_error_of_the_command_shows_none_of_it(bash_or_sh: BaseEnvironment) -> None:
    bash_or_sh.execute("export KEPT='a secret\nvalue'")
    for command in ("echo $?; if", "set -v; echo $?", "nothing_of_the_name", "echo 'open"):
        result = bash_or_sh.execute_oneshot(command, session_env=True)
        assert "secret" not in result.output
    assert _beside(bash_or_sh, "echo $?") == "0"


def test_a_terminal_has_it_too(env: BaseEnvironment) -> None:
    env.execute("export KEPT='on a terminal'")
    process = env.start("tty >/dev/null && echo $KEPT", pty=True, session_env=True)
    assert process.wait(60) == 0 and process.read().strip() == "on a terminal"


def test_what_a_scripts_tool_calls_make_of_paths_does_not_count(env: BaseEnvironment) -> None:
    env.execute("export PYTHONPATH=/mine; unset VIRTUAL_ENV")
    with CancelScope(is_trusted=False).active():
        env.execute("export PYTHONPATH=/theirs VIRTUAL_ENV=/theirs KEPT=1")
    assert _beside(env, "echo $PYTHONPATH ${VIRTUAL_ENV-unset} $KEPT") == "/mine unset 1"
