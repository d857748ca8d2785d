from __future__ import annotations

import json
from pathlib import Path

import pytest
from targets.processes import all_gone

from environments.base import BaseEnvironment
from environments.process import Process
from hermes_tools.terminal import script_terminal, terminal


def test_the_result_holds_output_and_exit_code(env: BaseEnvironment) -> None:
    for tool in (terminal, script_terminal):
        assert tool(env, "echo out; echo err >&2; exit 3") == {"output": "out\nerr\n", "exit_code": 3, "error": None}
        assert tool(env, "exit 124") == {"output": "", "exit_code": 124, "error": None}, "it has not timed out"
        assert tool(env, "") == {"output": "", "exit_code": 0, "error": None}
    assert json.loads(json.dumps(script_terminal(env, "printf '\\377'")))["output"] == "\ufffd"


def test_the_session_is_kept_and_workdir_holds_for_one_command(env: BaseEnvironment, tmp_path: Path) -> None:
    terminal(env, "mkdir sub; cd sub; export WORD=kept")
    assert terminal(env, "pwd", workdir="/")["output"] == "/\n"
    assert terminal(env, "echo $WORD; pwd")["output"] == f"kept\n{tmp_path}/sub\n"


def test_a_missing_working_directory_is_an_error_and_nothing_runs(env: BaseEnvironment, tmp_path: Path) -> None:
    result = terminal(env, "touch ran; grep x /dev/null", workdir=str(tmp_path / "gone"))
    assert result["exit_code"] == 1
    assert "No such file or directory" in result["output"]
    assert result["note"].endswith(f"unless {tmp_path}/gone could not be entered")
    assert not (tmp_path / "ran").exists()


def test_a_timeout_is_named_and_output_so_far_is_kept(env: BaseEnvironment) -> None:
    terminal(env, "true", pty=True)
    for pty in (False, True):
        result = terminal(env, "echo early; timeout 60 sleep 50", timeout=1, pty=pty)
        assert result == {"output": "early\n", "exit_code": 124, "error": "timed out after 1 s"}
        assert terminal(env, "echo done", timeout=float("inf"), pty=pty)["output"] == "done\n"


def test_a_pty_command_sees_a_terminal(env: BaseEnvironment) -> None:
    result = terminal(env, "test -t 1 && echo terminal; exit 5", pty=True)
    assert (result["output"].strip(), result["exit_code"], result["error"]) == ("terminal", 5, None)


def test_a_script_is_refused_background_and_pty_with_the_remedy(env: BaseEnvironment) -> None:
    for option in ("background", "pty"):
        with pytest.raises(ValueError, match=f"{option}=True is not available in a script.*run the command"):
            script_terminal(env, "true", **{option: True})


def test_a_denied_command_is_a_result_with_the_reason(env: BaseEnvironment) -> None:
    env.gate.before_command = lambda request: "use the patch tool"
    for how in ({}, {"background": True}, {"pty": True}):
        result = terminal(env, "sed -i s/a/b/ x", **how)
        assert result == {"output": "", "exit_code": 126, "error": "denied: use the patch tool"}


def test_long_output_is_cut_in_the_middle_with_a_notice(env: BaseEnvironment) -> None:
    for pty in (True, False):
        output = terminal(env, "echo first; seq 1 100000; echo last", pty=pty)["output"]
        head, notice, tail = output.partition(" bytes of output omitted]\n")
        assert len(output.encode()) <= 50_000
        assert head.startswith("first\n1\n2\n") and tail.endswith("100000\nlast\n")
    omitted = int(head.rpartition("[")[2])
    kept = len(output) - len(f"\n[{omitted}{notice}")
    assert omitted + kept == len("first\n") + sum(len(f"{n}\n") for n in range(1, 100_001)) + len("last\n")


def test_the_cut_goes_through_no_character_and_adds_no_sign(env: BaseEnvironment) -> None:
    command = "printf x; yes \N{EURO SIGN}\N{EURO SIGN}\N{EURO SIGN} | head -n 20000 | tr -d '\\n'"
    output = terminal(env, command)["output"]
    assert len(output.encode()) <= 50_000
    assert set(output.partition("\n[")[0]) == {"x", "\N{EURO SIGN}"}
    assert set(output.rpartition("]\n")[2]) == {"\N{EURO SIGN}"}


def test_the_cut_leaves_no_half_of_a_secret(env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-0123456789abcdef")
    for before in range(24_930, 24_960, 6):
        xs, ys = (f"head -c {size} /dev/zero | tr '\\0' {sign}" for size, sign in ((before, "x"), (60_000, "y")))
        output = terminal(env, f"{xs}; printf sk-0123456789abcdef; {ys}")["output"]
        assert "sk-0" not in output and "abcdef" not in output, before


def test_terminal_controls_do_not_count_towards_the_cap(env: BaseEnvironment) -> None:
    output = terminal(env, r"for n in $(seq 1 4000); do printf '\033[1;31m%s\033[0m\n' $n; done")["output"]
    assert output == "".join(f"{n}\n" for n in range(1, 4001))


def test_a_command_that_cannot_run_is_a_result_with_the_reason(env: BaseEnvironment) -> None:
    for arguments, error in (
        ({"command": "echo a\0b"}, "NUL"),
        ({"timeout": 0}, "timeout is 0 s; give a positive number"),
        ({"timeout": -1, "pty": True}, "timeout is -1 s; give a positive number"),
        ({"timeout": float("nan")}, "timeout is nan s"),
        ({"timeout": "5"}, "timeout is of type str"),
        ({"workdir": ""}, "give a directory"),
        ({"watch": ["x"]}, "are for background=True"),
        ({"notify_on_exit": True}, "are for background=True"),
        ({"background": True, "watch": ["x"] * 17}, "17 patterns; give at most 16"),
        ({"background": True, "watch": ["x" * 513]}, "1 to 512 characters"),
        ({"background": True, "watch": ["x*"]}, "matches the empty text"),
    ):
        result = terminal(env, **{"command": "true", **arguments})
        assert (result["output"], result["exit_code"], "process_id" in result) == ("", -1, False), arguments
        assert error in str(result["error"])


def test_an_exit_code_that_is_no_error_comes_with_what_it_means(env: BaseEnvironment) -> None:
    note = "exit code 1 of grep: no line matched, which is no error"
    for tool in (terminal, script_terminal):
        expected = {"output": "", "exit_code": 1, "error": None, "note": note}
        assert tool(env, "grep absent /dev/null") == expected


def test_a_pty_command_ends_when_its_caller_is_interrupted(
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
