"""`session_env`: exported variables of the session in one-shots and processes."""

from __future__ import annotations

import pytest

from environments import BaseEnvironment, CancelScope


def _run_beside(env: BaseEnvironment, command: str = "echo $KEPT") -> str:
    return env.execute_oneshot(command, session_env=True).output.removesuffix("\n")


def test_exports_are_those_of_the_last_ended_command_also_during_the_next(
    bash_or_sh: BaseEnvironment,
) -> None:
    received: list[str] = []
    bash_or_sh.execute("export KEPT=1")
    command = "export KEPT=unseen; echo on; sleep 0.1; echo and on"
    result = bash_or_sh.execute(command, on_output=lambda _: received.append(_run_beside(bash_or_sh)))
    assert result.output == "on\nand on\n"
    assert set(received) == {"1"}
    assert _run_beside(bash_or_sh) == "unseen"


def test_exports_outlive_the_sessions_shell(bash_or_sh: BaseEnvironment) -> None:
    bash_or_sh.execute("export KEPT=1")
    for end in ("exit 3", "exec true", "kill -9 $$", "set -e; false"):
        bash_or_sh.execute(end, timeout=60)
        assert _run_beside(bash_or_sh) == "1", end


def test_before_any_command_exports_are_those_of_the_target(
    env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEPT", "handed on")
    env.passthrough.allow(["KEPT"])
    assert _run_beside(env) == "handed on"
    env.execute("unset KEPT; export OTHER=1")
    assert _run_beside(env, "echo ${KEPT-unset}") == "unset"
    monkeypatch.setenv("LATE", "late")
    env.passthrough.allow(["LATE"])
    assert _run_beside(env, "echo $LATE $OTHER") == "late 1"


def test_only_exported_variables_of_the_session_are_passed_on(env: BaseEnvironment) -> None:
    env.execute(
        "declare -ax LIST=(a b); declare -rx FIXED=1; declare -ix COUNT=2; f() { :; }; umask 077; cd /usr; set -a"
    )
    assert _run_beside(env, "echo $FIXED $COUNT ${LIST-unset}; umask; pwd; echo $-; f 2>/dev/null || echo none") == (
        f"1 2 unset\n{env.execute_oneshot('umask').output}/usr\n{env.execute_oneshot('echo $-').output}none"
    )
    marker = "echo $HERMES_COMMAND"
    assert _run_beside(env, marker) != env.execute(marker).output.strip()
    assert not _run_beside(env, "export -p | grep _hx_")


def test_an_error_of_the_command_shows_no_exported_value(bash_or_sh: BaseEnvironment) -> None:
    bash_or_sh.execute("export KEPT='a secret\nvalue'")
    for command in ("echo $?; if", "set -v; echo $?", "nothing_of_the_name", "echo 'open"):
        result = bash_or_sh.execute_oneshot(command, session_env=True)
        assert "secret" not in result.output
    assert _run_beside(bash_or_sh, "echo $?") == "0"


def test_a_process_on_a_terminal_has_the_exports(env: BaseEnvironment) -> None:
    env.execute("export KEPT='on a terminal'")
    process = env.start("tty >/dev/null && echo $KEPT", pty=True, session_env=True)
    assert process.wait(60) == 0 and process.read().strip() == "on a terminal"


def test_paths_set_by_tool_calls_of_a_script_are_not_passed_on(env: BaseEnvironment) -> None:
    env.execute("export PYTHONPATH=/mine; unset VIRTUAL_ENV")
    with CancelScope(is_trusted=False).active():
        env.execute("export PYTHONPATH=/theirs VIRTUAL_ENV=/theirs KEPT=1")
    assert _run_beside(env, "echo $PYTHONPATH ${VIRTUAL_ENV-unset} $KEPT") == "/mine unset 1"
