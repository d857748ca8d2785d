"""Python sessions on this machine: `PythonSession`, and other interfaces to them."""

from __future__ import annotations

import base64
import json
import signal
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import pytest
from targets.figures import DRAWS_TWO, FIGURE
from targets.python_sessions import *  # noqa: F403  # the tests that hold wherever a stream goes both ways

from code_execution import PythonSession, execute_code
from code_execution.output import SessionMessages
from code_execution.session import MOST_NAMES, RESTARTED, SessionPython
from code_execution.session_program import draw_figures
from code_execution.start import PythonProcess
from environments import (
    BaseEnvironment,
    CancelScope,
    TerminalError,
    UnsupportedError,
    create_environment,
)
from environments.approvals import Deny
from environments.result import Capabilities


@pytest.fixture
def anywhere(env: BaseEnvironment) -> BaseEnvironment:
    return env


def test_approvals_and_records_hold_for_each_script(env: BaseEnvironment, tmp_path: Path) -> None:
    def never(*_: object) -> Deny:
        return Deny("not this one")

    record = tmp_path / "record.jsonl"
    with PythonSession(env, tools={"add": lambda a, b: a + b}) as session:
        session.execute("import hermes_tools\nx = 1")
        denied = session.execute("x = 2", before_script=never)
        assert (denied.status, denied.exit_code) == ("error", None)
        refused = session.execute("x = 3\nhermes_tools.add(1, 2)", before_tool_call=never)
        assert "not this one" in refused.stderr
        assert session.execute("x", record=record).value == "3"
    kinds = [json.loads(line) for line in record.read_text().splitlines()]
    assert [each["script"] for each in kinds if each.get("script")] == ["x"]


def test_secrets_are_hidden_in_a_value(env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-live-123456789")
    with PythonSession(env) as session:
        assert "123456789" not in str(session.execute("'sk-live-' + '123456789'"))


def test_output_is_shown_while_it_is_printed(env: BaseEnvironment) -> None:
    pieces: list[str] = []
    with PythonSession(env) as session:
        session.execute("x = 1")
        result = session.execute("for n in range(3): print(n)", on_output=pieces.append)
    assert "".join(pieces) == result.output == "0\n1\n2\n"


def test_a_value_is_cut_where_output_is(env: BaseEnvironment) -> None:
    with PythonSession(env) as session:
        value = session.execute("'x' * 1_000_000").value
        assert value and value.endswith("\n[output truncated at 50KB]") and len(value) < 51_000
        assert session.execute("None").value is None
        assert session.execute("class Odd:\n    def __repr__(self): raise ValueError('odd')\nOdd()").exit_code == 1
        assert session.execute("1").value == "1"


def test_output_that_ends_with_the_begin_of_a_path_is_whole(env: BaseEnvironment) -> None:
    with PythonSession(env) as session:
        assert session.execute("print('File \"/', end='')").output == 'File "/'
        assert session.execute("print(1)").output == "1\n"


def test_an_interrupt_that_comes_as_the_script_does_ends_that_one_alone(env: BaseEnvironment) -> None:
    """An interrupt sent along with the script may arrive before its begin."""
    with PythonSession(env) as session:
        session.execute("x = 0")
        send = SessionPython.send
        for number in range(20):
            stop = threading.Event()

            def sent(python: SessionPython, *args: Any, stop: threading.Event = stop) -> None:
                send(python, *args)
                stop.set()

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(SessionPython, "send", sent)
                result = session.execute("x += 1\n__import__('time').sleep(60)", interrupt=stop)
            assert (result.status, result.note) == ("interrupted", None)
            assert session.execute("x").value in map(str, range(number + 2))


def test_a_future_import_holds_for_the_scripts_behind_it(env: BaseEnvironment) -> None:
    with PythonSession(env) as session:
        session.execute("from __future__ import annotations")
        assert session.execute("def f(x: unknown): pass\nf.__annotations__").value == "{'x': 'unknown'}"


def test_scripts_of_several_threads_take_turns(env: BaseEnvironment) -> None:
    with PythonSession(env) as session:
        session.execute("import time\nsteps = []")
        code = "steps.append(('in', {0}))\ntime.sleep(0.05)\nsteps.append(('out', {0}))"
        threads = [threading.Thread(target=session.execute, args=(code.format(n),)) for n in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        steps = session.execute("steps").value
    assert steps is not None
    found = eval(steps)
    assert [found[n + 1] for n in range(0, 10, 2)] == [("out", number) for _, number in found[::2]]


def test_a_script_that_waits_for_its_turn_has_its_own_time_out(env: BaseEnvironment) -> None:
    with PythonSession(env) as session:
        session.execute("import time, threading")
        first = threading.Thread(target=session.execute, args=("x = 1\ntime.sleep(3)",))
        first.start()
        while not env.execute_oneshot("true").ok:
            pass
        time.sleep(0.5)
        late = session.execute("x = 2", timeout=0.5)
        stop = CancelScope()
        stop.cancel()
        with stop.active():
            cancelled = session.execute("x = 3")
        first.join()
        assert (late.status, late.exit_code) == ("timeout", None)
        assert "was used up by the script that ran in the session before it" in str(late.error)
        assert cancelled.status == "interrupted"
        assert session.execute("x").value == "1"


def test_a_tool_that_runs_another_script_of_its_session_is_refused(env: BaseEnvironment) -> None:
    with PythonSession(env, tools={"again": lambda: session.execute("1").error}) as session:
        result = session.execute("import hermes_tools\nhermes_tools.again()", timeout=30)
    assert "cannot run a script in the calling script's own session" in str(result.value)


def test_arguments_that_the_session_decides_are_refused(env: BaseEnvironment, tmp_path: Path) -> None:
    with PythonSession(env) as session, create_environment("local", cwd=str(tmp_path)) as other:
        for options in ({"env": other}, {"mode": "strict"}, {"transport": "file"}, {"session_env": True}):
            with pytest.raises(ValueError, match="session"):
                execute_code("1", session=session, **options)  # type: ignore[arg-type]
        assert execute_code("1", session=session, env=env, mode="project", transport="relay").value == "1"
    with pytest.raises(TypeError, match="give an environment"):
        PythonSession("local")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timeout is -1"):
        PythonSession(env, timeout=-1)


def test_a_closed_session_runs_no_more(env: BaseEnvironment) -> None:
    session = PythonSession(env)
    session.close()
    assert "is closed" in str(session.execute("1").error)
    session.close()


def test_closing_ends_the_script_that_runs(env: BaseEnvironment) -> None:
    session = PythonSession(env)
    session.execute("import time")
    results = []
    thread = threading.Thread(target=lambda: results.append(session.execute("time.sleep(60)")))
    thread.start()
    time.sleep(0.5)
    began = time.monotonic()
    session.close()
    thread.join()
    assert time.monotonic() - began < 40
    assert [result.status for result in results] == ["interrupted"]


def test_cleaning_up_the_environment_ends_it(tmp_path: Path) -> None:
    env = create_environment("local", cwd=str(tmp_path))
    session = PythonSession(env)
    assert session.execute("1").value == "1"
    results = []
    thread = threading.Thread(target=lambda: results.append(session.execute("__import__('time').sleep(60)")))
    thread.start()
    time.sleep(0.5)
    env.cleanup()
    thread.join()
    assert [result.status for result in results] == ["interrupted"]
    assert "cleaned up" in str(session.execute("1").error)
    session.close()


class _Left(BaseException):
    pass


def test_a_caller_that_leaves_interrupts_its_script_and_loses_nothing_else(env: BaseEnvironment) -> None:
    def leave(*_: object) -> None:
        raise _Left

    with PythonSession(env) as session:
        session.execute("import time\nx = 1")
        before = signal.signal(signal.SIGALRM, leave)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            with pytest.raises(_Left):
                session.execute("x += 1\ntime.sleep(60)")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        after = session.execute("x")
        assert (after.value, after.note) == ("2", None)


def test_the_setting_has_the_scripts_of_an_environment_share_one(env: BaseEnvironment, tmp_path: Path) -> None:
    assert execute_code("x = 1", env=env, session=True).status == "success"
    assert execute_code("x", env=env, session=True).value == "1"
    assert "NameError" in execute_code("x", env=env).stderr
    assert "NameError" in execute_code("x", env=env, session=True, mode="strict").stderr
    (tmp_path / "settings" / "config.yaml").write_text("code_execution: {kernel_mode: session}\n")
    assert execute_code("x += 1\nx", env=env).value == "2"
    assert "NameError" in execute_code("x", env=env, session=False).stderr


def test_an_environment_keeps_a_session_for_each_name(env: BaseEnvironment) -> None:
    names = [f"name {number}" for number in range(MOST_NAMES)]
    for name in names:
        assert execute_code(f"x = {name!r}", env=env, session=name).status == "success"
    for name in names:
        assert execute_code("x", env=env, session=name).value == repr(name)
    assert "NameError" in execute_code("x", env=env, session=True).stderr
    with pytest.raises(ValueError, match=r"would be one more than the 8 sessions .* use one of them: name 0, name 1"):
        execute_code("x", env=env, session="one more")
    with pytest.raises(ValueError, match="session is an empty name"):
        execute_code("x", env=env, session="")
    with pytest.raises(ValueError, match="session is a name of 65 characters; give one of at most 64"):
        execute_code("x", env=env, session="n" * 65)


def test_where_there_is_no_stream_both_ways_it_is_refused(
    env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    can = env.capabilities
    shut = Capabilities(**{**{name: getattr(can, name) for name in can.__slots__}, "duplex": False})
    monkeypatch.setattr(type(env), "capabilities", property(lambda _: shut))
    with PythonSession(env) as session, pytest.raises(UnsupportedError, match="no duplex stream"):
        session.execute("1")


def test_the_first_result_of_a_new_python_notes_the_lost_variables(env: BaseEnvironment) -> None:
    with PythonSession(env) as session:
        session.execute("x = 1")
        pid = session.execute("import os; os.getpid()").value
        env.execute_oneshot(f"kill -KILL {pid}")
        while session._python and session._python.process.is_running:
            time.sleep(0.01)
        result = session.execute("1")
        assert (result.value, result.note) == ("1", RESTARTED)


# Its parts.


@pytest.fixture
def pyplot(monkeypatch: pytest.MonkeyPatch) -> dict[int, bytes]:
    figures: dict[int, bytes] = {}

    class Figure:
        def __init__(self, number: int) -> None:
            self._number = number

        def savefig(self, file: object, format: str) -> None:
            assert format == "png"
            file.write(figures[self._number])  # type: ignore[attr-defined]

    module = types.ModuleType("matplotlib.pyplot")
    module.get_fignums = lambda: sorted(figures)  # type: ignore[attr-defined]
    module.figure = Figure  # type: ignore[attr-defined]
    module.close = lambda which: figures.clear()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", module)
    return figures


def test_open_figures_are_taken_up_to_a_limit_and_closed(pyplot: dict[int, bytes]) -> None:
    pyplot |= {number: b"%d" % number for number in range(12)}
    assert draw_figures() == ([b"%d" % number for number in range(10)], 2)
    assert draw_figures() == ([], 0)
    pyplot |= {1: b"x" * (5 * 1024 * 1024 + 1), 2: b"small"}
    assert draw_figures() == ([b"small"], 1)


def test_figures_come_back_as_images(env: BaseEnvironment) -> None:
    with PythonSession(env) as session:
        result = session.execute(DRAWS_TWO)
        assert result.images == (FIGURE, FIGURE)
        assert session.execute("1").images == ()
        assert result.to_dict()["images"] == [base64.b64encode(FIGURE).decode()] * 2


def test_results_are_found_at_every_cut() -> None:
    word = "0123456789abcdef"
    mark = b"\x1e" + word.encode() + b" "
    stream = (
        b"out\x1e" + mark + b"v 3 0\nabc" + mark + b"v 2 1\nde" + mark + b"i 4 1\n\x1ePNG" + mark + b"d 7 1 5 0\nlate"
    )
    for cut in range(len(stream) + 1):
        results = SessionMessages(word, 100)
        done: list[int] = []

        def note(number: int, results: SessionMessages = results, done: list[int] = done) -> None:
            results.passes_output = False
            done.append(number)

        results.on_done = note
        passed = results.feed(stream[:cut]) + results.feed(stream[cut:])
        assert (passed, done) == (b"out\x1e", [7])
        assert results.result() == (1, b"abcde", 5, (b"\x1ePNG",), 0)


def test_results_that_lie_take_no_more_than_their_limit() -> None:
    word = "0123456789abcdef"
    mark = b"\x1e" + word.encode() + b" "
    results = SessionMessages(word, 1000)
    for _ in range(100):
        assert results.feed(mark + b"v 4000 0\n" + b"x" * 4000) == b""
    assert len(results.result().value or b"") <= 1000
    for _ in range(30):
        results.feed(mark + b"i 3 1\nabc")
    assert len(results.result().figures) == 10
    for lie in (b"v 99999999 0\n", b"x" * 5000, b"d 1 2\n", b"d -1 a b c\n", b"v -1 0\n"):
        with pytest.raises(TerminalError, match="tampered"):
            SessionMessages(word, 1000).feed(mark + lie)


KILLED_SOON = """
import os, subprocess, sys, threading
ignores = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(60)"
subprocess.Popen([sys.executable, "-c", ignores], stdout=subprocess.PIPE).stdout.readline()
threading.Timer(0.1, os.kill, (os.getpid(), 9)).start()
"""
"""Leaves work that keeps the supervisor busy for seconds after the script's end."""


def test_a_script_that_was_on_its_way_when_the_python_ended_is_not_run_by_the_shell(
    env: BaseEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    monkeypatch.setattr(PythonProcess, "_report_end", lambda _: ended.set())  # as if the report had not arrived
    process = env.start("sleep 1000")
    with PythonSession(env) as session:
        assert session.execute(KILLED_SOON).status == "success"
        assert ended.wait(60)
        result = session.execute(f"1\ntouch {tmp_path}/shell_was_here\n")
        assert (result.status, result.exit_code) == ("error", 137)
        monkeypatch.undo()
        assert session.execute("2").value == "2"
    assert not (tmp_path / "shell_was_here").exists()
    assert process.running
    process.kill()
