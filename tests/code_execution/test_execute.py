"""Results of scripts, and their errors."""

from __future__ import annotations

import math
import threading

import psutil
import pytest
from targets.processes import processes_with

from code_execution import execute_code
from environments import BaseEnvironment, CancelScope
from environments.conformance.check import wait_until


def test_only_what_the_script_prints_comes_back(env: BaseEnvironment) -> None:
    result = execute_code("x = 1\nprint('printed')\nx", env=env)
    assert (result.status, result.output, result.exit_code) == ("success", "printed\n", 0)
    assert result.tool_calls_made == 0
    assert result.error is None


def test_the_result_goes_into_json(env: BaseEnvironment) -> None:
    given = execute_code("print(1)", env=env).to_dict()
    fields = ["status", "output", "tool_calls_made", "duration_seconds", "exit_code", "error", "stderr", "tool_calls"]
    assert list(given) == [*fields, "limit", "note", "value", "images"]


def test_arguments_reach_the_script(env: BaseEnvironment) -> None:
    result = execute_code("import sys; print(sys.argv[1:])", env=env, argv=["a b", "'c'"])
    assert result.output == "['a b', \"'c'\"]\n"


def test_the_script_runs_in_the_sessions_directory(env: BaseEnvironment) -> None:
    env.execute("mkdir sub; cd sub; echo here > file")
    assert execute_code("print(open('file').read())", env=env).output == "here\n\n"


def test_in_strict_mode_it_runs_in_a_directory_of_its_own(env: BaseEnvironment) -> None:
    code = "import os; print(os.getcwd()); print(sorted(os.listdir()))"
    result = execute_code(code, env=env, mode="strict")
    assert result.output.splitlines()[0] != env.cwd
    assert "script.py" in result.output


def test_a_tool_of_ours_is_called_here(env: BaseEnvironment, transport: str) -> None:
    seen: list[tuple[int, str]] = []

    def note(number: int, text: str = "none") -> dict[str, int]:
        """Take a note."""
        seen.append((number, text))
        return {"noted": number}

    code = "from hermes_tools import note\nprint(note(1), note(number=2, text='two'))\nprint(note.__doc__)"
    result = execute_code(code, env=env, tools={"note": note}, transport=transport)  # type: ignore[arg-type]
    assert result.output == "{'noted': 1} {'noted': 2}\nTake a note.\n"
    assert seen == [(1, "none"), (2, "two")]
    assert result.tool_calls_made == 2


def test_terminal_called_from_a_script_runs_in_the_session(env: BaseEnvironment) -> None:
    env.execute("export COLOUR=red")
    code = "from hermes_tools import terminal\nprint(terminal('echo $COLOUR; mkdir d; cd d; export SHAPE=round'))"
    result = execute_code(code, env=env)
    assert result.output == "{'output': 'red\\n', 'exit_code': 0, 'error': None}\n"
    assert env.execute("echo $SHAPE; basename $PWD").output == "round\nd\n"


def test_without_tools_there_are_none(env: BaseEnvironment) -> None:
    result = execute_code("import hermes_tools; hermes_tools.terminal('ls')", env=env, tools={})
    assert result.status == "error"
    assert "has no 'terminal'" in result.output


def test_a_script_never_starts_another(env: BaseEnvironment) -> None:
    for name in ("execute_code", "delegate_task"):
        with pytest.raises(ValueError, match=name):
            execute_code("", env=env, tools={name: print})


def test_a_syntax_error_is_the_scripts_own(env: BaseEnvironment) -> None:
    result = execute_code("def broken(:\n", env=env)
    assert (result.status, result.exit_code) == ("error", 1)
    assert "SyntaxError" in result.output


def test_a_failing_script_shows_what_it_printed_and_its_stderr(env: BaseEnvironment) -> None:
    result = execute_code("print('before'); 1/0", env=env)
    assert result.output.startswith("before\n--- stderr ---\n")
    assert result.output.endswith("ZeroDivisionError: division by zero")


def test_the_stderr_of_a_script_that_succeeds_stays_out(env: BaseEnvironment) -> None:
    result = execute_code("import sys; print('out'); print('err', file=sys.stderr)", env=env)
    assert result.output == "out\n"


def test_output_of_20_mb_is_cut_to_50_kb_with_a_notice(env: BaseEnvironment) -> None:
    before = psutil.Process().memory_info().rss
    code = "import sys\nprint('first')\nfor _ in range(20): sys.stdout.write('x' * 1_000_000)\nprint('last')"
    result = execute_code(code, env=env)
    assert result.status == "success"
    assert "\n[output truncated at 50KB]\n" in result.output
    assert result.output.startswith("first\n")
    assert result.output.endswith("last\n")
    assert len(result.output) < 50_100
    assert psutil.Process().memory_info().rss - before < 20_000_000


def test_stderr_is_cut_to_10_kb(env: BaseEnvironment) -> None:
    result = execute_code("import sys; sys.stderr.write('e' * 1_000_000); sys.exit(2)", env=env)
    assert "[output truncated at 10KB]" in result.output
    assert len(result.output) < 10_200


def test_exiting_124_is_an_error_and_no_timeout(env: BaseEnvironment) -> None:
    result = execute_code("raise SystemExit(124)", env=env)
    assert (result.status, result.exit_code) == ("error", 124)
    assert "timed out" not in result.output


def test_a_script_that_kills_itself_is_an_error_with_the_signal(env: BaseEnvironment) -> None:
    result = execute_code("import os; os.kill(os.getpid(), 9)", env=env)
    assert (result.status, result.exit_code) == ("error", 137)


BUSY = """
import subprocess, sys, time
subprocess.Popen(["sleep", "{0}"], start_new_session=True)
print("begun")
time.sleep(100)
"""


def test_a_timed_out_script_and_all_it_started_is_ended(env: BaseEnvironment, nap: str) -> None:
    result = execute_code(BUSY.format(nap), env=env, timeout=0.7)
    assert result.status == "timeout"
    assert processes_with(nap) == []


def test_an_interrupted_script_and_all_it_started_is_ended(env: BaseEnvironment, nap: str) -> None:
    interrupt = threading.Event()
    result = execute_code(BUSY.format(nap), env=env, interrupt=interrupt, on_output=lambda text: interrupt.set())
    assert (result.status, result.exit_code) == ("interrupted", 130)
    assert result.output == "begun\n[execution interrupted — user sent a new message]"
    assert processes_with(nap) == []


def test_a_cancelled_scope_ends_a_script_and_lets_none_begin(env: BaseEnvironment, nap: str) -> None:
    scope = CancelScope()
    with scope.active():
        result = execute_code(BUSY.format(nap), env=env, on_output=lambda text: scope.cancel())
        assert (result.status, result.exit_code) == ("interrupted", 130)
        assert processes_with(nap) == []
        after = execute_code("open('ran', 'w')", env=env)
    assert (after.status, after.exit_code, env.exists("ran")) == ("interrupted", None, False)


def test_a_daemon_that_holds_stdout_neither_delays_the_return_nor_survives_it(env: BaseEnvironment, nap: str) -> None:
    code = f"""
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "{nap}"])
    os._exit(0)
print("done")
"""
    assert execute_code(code, env=env).output == "done\n"
    assert processes_with(nap) == []


def test_a_tool_slower_than_the_script_is_ended_with_it(env: BaseEnvironment, transport: str, nap: str) -> None:
    interrupt = threading.Event()
    threading.Thread(target=lambda: wait_until(lambda: processes_with(nap) != [], 60) and interrupt.set()).start()
    code = f"from hermes_tools import terminal\nterminal('sleep {nap}', timeout=600)"
    result = execute_code(code, env=env, interrupt=interrupt, transport=transport)  # type: ignore[arg-type]
    assert result.status == "interrupted"
    assert processes_with(nap) == []
    assert env.execute("echo free").output == "free\n"


def test_a_call_that_waits_for_the_session_does_not_run_after_the_script(env: BaseEnvironment) -> None:
    called = threading.Event()
    holder = threading.Thread(
        target=env.execute, args=("touch held; until [ -e go ]; do sleep 0.02; done; rm go held",)
    )
    holder.start()
    assert wait_until(lambda: env.exists("held"), 60)
    code = "from hermes_tools import terminal\nterminal('touch too_late')"
    result = execute_code(code, env=env, interrupt=called, before_tool_call=lambda call: called.set())
    assert result.status == "interrupted"
    env.write_bytes("go", b"")
    holder.join()
    assert env.execute("ls").output == ""


def test_a_bad_argument_is_named_with_what_is_allowed(env: BaseEnvironment) -> None:
    for arguments, message in (
        ({"timeout": 0}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"max_tool_calls": -1}, "max_tool_calls"),
        ({"mode": "loose"}, "project, strict"),
        ({"transport": "pigeon"}, "auto, socket, relay, file"),
    ):
        with pytest.raises(ValueError, match=message):
            execute_code("print(1)", env=env, **arguments)  # type: ignore[arg-type]


def test_source_that_is_not_text_is_refused(env: BaseEnvironment) -> None:
    with pytest.raises(ValueError, match="surrogate"):
        execute_code("print('\ud800')", env=env)


def test_there_may_be_no_time_limit(env: BaseEnvironment) -> None:
    assert execute_code("print(1)", env=env, timeout=math.inf).output == "1\n"


def test_on_windows_execute_code_reports_that_it_is_not_available(
    env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("code_execution.execute.sys.platform", "win32")
    result = execute_code("print(1)", env=env)
    assert result.status == "error"
    assert "not available on Windows" in result.output


def test_an_error_of_the_callback_comes_out_and_ends_the_script(env: BaseEnvironment) -> None:
    def fail(text: str) -> None:
        raise LookupError(text)

    with pytest.raises(LookupError):
        execute_code("import time; print('begun'); time.sleep(100)", env=env, on_output=fail)
    assert not env.busy
