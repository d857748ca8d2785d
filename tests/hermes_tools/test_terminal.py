from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from targets.processes import all_gone

from environments import create_environment
from environments.base import BaseEnvironment
from environments.process import Process
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
    result = terminal(env, "echo early; sleep 60", timeout=2)
    assert result == {"output": "early\n", "exit_code": 124, "error": "timed out after 2 s"}


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
    result = terminal(env, "echo early; sleep 60", pty=True, timeout=2)
    assert (result["output"].strip(), result["exit_code"]) == ("early", 124)
    assert result["error"] == "timed out after 2 s"


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


def test_much_output_is_cut_in_its_middle_and_the_cut_is_said(env: BaseEnvironment) -> None:
    output = terminal(env, "echo first; seq 1 100000; echo last")["output"]
    head, notice, tail = output.partition(" bytes of output omitted]\n")
    assert len(output.encode()) <= 50_000
    assert head.startswith("first\n1\n2\n")
    assert tail.endswith("100000\nlast\n")
    omitted = int(head.rpartition("[")[2])
    kept = len(output) - len(f"\n[{omitted}{notice}")
    assert omitted + kept == len("first\n") + sum(len(f"{n}\n") for n in range(1, 100_001)) + len("last\n")


def test_the_cut_goes_through_no_character_and_adds_no_sign(env: BaseEnvironment) -> None:
    output = terminal(env, "printf x; yes \N{EURO SIGN}\N{EURO SIGN}\N{EURO SIGN} | head -n 20000 | tr -d '\\n'")[
        "output"
    ]
    assert len(output.encode()) <= 50_000
    assert set(output.partition("\n[")[0]) == {"x", "\N{EURO SIGN}"}
    assert set(output.rpartition("]\n")[2]) == {"\N{EURO SIGN}"}


@pytest.mark.parametrize("before", range(24_930, 24_960, 3))
def test_the_cut_leaves_no_half_of_a_secret(env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch, before: int) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-0123456789abcdef")
    command = (
        f"head -c {before} /dev/zero | tr '\\0' x; printf sk-0123456789abcdef; head -c 60000 /dev/zero | tr '\\0' y"
    )
    output = terminal(env, command)["output"]
    assert "sk-0" not in output
    assert "abcdef" not in output


def test_controls_take_no_room(env: BaseEnvironment) -> None:
    output = terminal(env, r"for n in $(seq 1 4000); do printf '\033[1;31m%s\033[0m\n' $n; done")["output"]
    assert output == "".join(f"{n}\n" for n in range(1, 4001))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"command": "echo a\0b"}, "NUL"),
        ({"command": "true", "timeout": 0}, "timeout is 0 s; give a positive number"),
        ({"command": "true", "timeout": -1, "pty": True}, "timeout is -1 s; give a positive number"),
        ({"command": "true", "timeout": float("nan")}, "timeout is nan s"),
        ({"command": "true", "timeout": "5"}, "timeout is of type str"),
        ({"command": "true", "workdir": ""}, "give a directory"),
        ({"command": "true", "watch": ["x"]}, "are for background=True"),
        ({"command": "true", "notify_on_exit": True}, "are for background=True"),
        ({"command": "true", "background": True, "watch": ["x"] * 17}, "17 patterns; give at most 16"),
        ({"command": "true", "background": True, "watch": ["x" * 513]}, "1 to 512 characters"),
        ({"command": "true", "background": True, "watch": ["x*"]}, "matches where there is nothing"),
        ({"command": "true", "background": True, "watch": [7]}, "of type int"),
    ],
)
def test_what_cannot_be_run_is_a_result_that_says_why(
    env: BaseEnvironment, arguments: dict[str, Any], error: str
) -> None:
    result = terminal(env, **arguments)
    assert (result["output"], result["exit_code"]) == ("", -1)
    assert error in str(result["error"])
    assert "process_id" not in result


def test_an_empty_command_does_nothing(env: BaseEnvironment) -> None:
    assert terminal(env, "") == {"output": "", "exit_code": 0, "error": None}


@pytest.mark.parametrize("pty", [False, True])
def test_a_time_without_end_is_no_limit(env: BaseEnvironment, pty: bool) -> None:
    assert terminal(env, "echo done", timeout=float("inf"), pty=pty)["output"] == "done\n"


def test_a_directory_that_is_gone_is_told_and_nothing_runs(env: BaseEnvironment, tmp_path: Path) -> None:
    result = terminal(env, "touch ran; grep x /dev/null", workdir=str(tmp_path / "gone"))
    assert result["exit_code"] == 1
    assert "No such file or directory" in result["output"]
    assert result["note"].endswith(f"unless {tmp_path}/gone could not be entered")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("tool", [terminal, script_terminal])
def test_an_exit_code_that_is_no_error_comes_with_what_it_means(
    env: BaseEnvironment, tool: Callable[..., dict[str, Any]]
) -> None:
    assert tool(env, "grep absent /dev/null") == {
        "output": "",
        "exit_code": 1,
        "error": None,
        "note": "exit code 1 of grep: no line matched, which is no error",
    }


def test_a_command_that_was_ended_has_no_other_note(env: BaseEnvironment) -> None:
    assert "note" not in terminal(env, "timeout 60 sleep 50", timeout=0.3)


def test_head_and_tail_of_a_pty_are_kept(env: BaseEnvironment) -> None:
    output = terminal(env, "echo first; seq 1 100000; echo last", pty=True)["output"]
    assert output.startswith("first\n1\n")
    assert output.endswith("100000\nlast\n")
    assert "bytes of output omitted]" in output


def test_a_pty_command_ends_when_whoever_waits_is_interrupted(
    env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch, nap: str
) -> None:
    class Interrupted(BaseException):
        pass

    started: list[Process] = []

    def start(*args: object, **options: object) -> Process:
        process = type(env).start(env, *args, **options)  # type: ignore[arg-type]
        monkeypatch.setattr(process, "wait", interrupted)
        started.append(process)
        return process

    def interrupted(timeout: float | None = None) -> int | None:
        raise Interrupted

    monkeypatch.setattr(env, "start", start)
    with pytest.raises(Interrupted):
        terminal(env, f"sleep {nap}", pty=True)
    assert not started[0].running
    assert all_gone(nap)
