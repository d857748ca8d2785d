from __future__ import annotations

import json
from pathlib import Path

import pytest

from environments import create_environment
from environments.base import BaseEnvironment
from hermes_tools.terminal import background_process, script_terminal, terminal


def test_the_result_holds_output_and_exit_code(env: BaseEnvironment) -> None:
    assert terminal(env, "echo out; echo err >&2; exit 3") == {
        "output": "out\nerr\n",
        "exit_code": 3,
        "error": None,
    }


def test_the_session_keeps_exports_and_directory_between_calls(env: BaseEnvironment, tmp_path: Path) -> None:
    terminal(env, "mkdir sub; cd sub; export WORD=kept")
    assert terminal(env, "echo $WORD; pwd")["output"] == f"kept\n{tmp_path}/sub\n"


def test_workdir_holds_for_one_command(env: BaseEnvironment, tmp_path: Path) -> None:
    assert terminal(env, "pwd", workdir="/")["output"] == "/\n"
    assert terminal(env, "pwd")["output"] == f"{tmp_path}\n"


def test_a_timeout_is_named_and_output_so_far_is_kept(env: BaseEnvironment) -> None:
    result = terminal(env, "echo early; sleep 60", timeout=0.5)
    assert result == {"output": "early\n", "exit_code": 124, "error": "timed out after 0.5 s"}


def test_a_command_that_exits_124_has_not_timed_out(env: BaseEnvironment) -> None:
    assert terminal(env, "exit 124") == {"output": "", "exit_code": 124, "error": None}


def test_omitted_output_is_said_where_it_was(tmp_path: Path) -> None:
    with create_environment("local", cwd=str(tmp_path), max_output_bytes=1000) as env:
        output = terminal(env, "seq 1 10000")["output"]
    head, notice, tail = output.partition(" bytes of output omitted]\n")
    assert head.startswith("1\n2\n")
    assert tail.endswith("9999\n10000\n")
    omitted = int(head.rpartition("[")[2])
    kept = len(output) - len(f"\n[{omitted}{notice}")
    assert omitted + kept == len("".join(f"{n}\n" for n in range(1, 10001)))


def test_a_background_command_returns_at_once_and_its_handle_is_kept(env: BaseEnvironment) -> None:
    started = terminal(env, "echo begun; read -r word; echo got $word; exit 4", background=True)
    assert started["exit_code"] == 0
    assert started["process_id"] in started["output"]
    process = background_process(started["process_id"])
    assert process.poll() is None
    process.write("this\n")
    assert process.wait(10) == 4
    assert process.read() == "begun\ngot this\n"


def test_a_pty_command_sees_a_terminal(env: BaseEnvironment) -> None:
    result = terminal(env, "test -t 1 && echo terminal; exit 5", pty=True)
    assert (result["output"].strip(), result["exit_code"], result["error"]) == ("terminal", 5, None)


def test_a_pty_command_is_ended_when_its_time_is_up(env: BaseEnvironment) -> None:
    result = terminal(env, "echo early; sleep 60", pty=True, timeout=0.5)
    assert (result["output"].strip(), result["exit_code"]) == ("early", 124)
    assert result["error"] == "timed out after 0.5 s"


@pytest.mark.parametrize("option", ["background", "pty"])
def test_a_script_is_refused_background_and_pty_and_told_what_to_do(env: BaseEnvironment, option: str) -> None:
    with pytest.raises(ValueError, match=f"{option}=True is not available in a script.*run the command"):
        script_terminal(env, "true", background=option == "background", pty=option == "pty")


def test_a_script_runs_commands_in_the_foreground(env: BaseEnvironment) -> None:
    result = script_terminal(env, "printf '\\377'")
    assert json.loads(json.dumps(result)) == {"output": "\ufffd", "exit_code": 0, "error": None}


@pytest.mark.parametrize("how", [{}, {"background": True}, {"pty": True}])
def test_a_command_that_is_not_allowed_is_a_result_that_says_why(env: BaseEnvironment, how: dict[str, bool]) -> None:
    env.before_command = lambda request: "use the patch tool"
    assert terminal(env, "sed -i s/a/b/ x", **how) == {
        "output": "",
        "exit_code": 126,
        "error": "denied: use the patch tool",
    }
