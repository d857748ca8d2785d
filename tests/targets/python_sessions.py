"""Tests of Python sessions, for any environment with an interactive stream. The importer has a fixture `anywhere`."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from code_execution import PythonSession, execute_code
from code_execution.session import GONE, RESTARTED
from environments import BaseEnvironment
from environments.conformance.check import wait_until
from targets.hostile_scripts import running, scripts_directories

__all__ = [
    "python",
    "test_a_limit_of_tool_calls_is_one_of_each_script",
    "test_a_script_that_ends_its_python_costs_the_variables_and_no_more",
    "test_a_script_that_forks_stays_one",
    "test_a_script_that_ignores_its_interrupt_is_killed",
    "test_an_error_is_the_scripts_alone",
    "test_nothing_is_left_of_a_session",
    "test_output_between_two_scripts_is_in_neither",
    "test_scripts_share_what_they_define",
    "test_time_that_is_over_interrupts_the_script_and_keeps_the_variables",
]


@pytest.fixture
def python(anywhere: BaseEnvironment) -> Iterator[PythonSession]:
    with PythonSession(anywhere, tools={"add": lambda a, b: a + b}) as session:
        yield session


def test_scripts_share_what_they_define(python: PythonSession) -> None:
    assert python.execute("import math\nx = 20\ndef double(n): return 2 * n").value is None
    result = python.execute("print('printed')\ndouble(x) + math.floor(2.5)", argv=["one"])
    assert (result.status, result.output, result.value, result.exit_code) == ("success", "printed\n", "42", 0)
    assert python.execute("import sys, hermes_tools\nhermes_tools.add(x, len(sys.argv))", argv=["a"]).value == "22"
    assert python.execute("hermes_tools.add('a', 'b')").value == "'ab'"
    assert execute_code("x + 1", session=python).value == "21"
    assert python.execute("'é' + chr(0xdc80)").value == r"'é\udc80'"


def test_an_error_is_the_scripts_alone(python: PythonSession) -> None:
    python.execute("y = 1\ndef fail():\n    raise ValueError('no')\n")
    result = python.execute("y = 2\nfail()")
    assert (result.status, result.exit_code, result.value) == ("error", 1, None)
    shown = [line for line in result.stderr.splitlines() if not set(line) <= set(" ^~")]
    assert shown == [
        "Traceback (most recent call last):",
        '  File "script-2.py", line 2, in <module>',
        "    fail()",
        '  File "script-1.py", line 3, in fail',
        "    raise ValueError('no')",
        "ValueError: no",
    ]
    assert python.execute("y y").stderr.startswith('  File "script-3.py", line 1\n')
    assert python.execute("import sys; sys.exit(3)").exit_code == 3
    ended = python.execute("sys.exit('bye')")
    assert (ended.exit_code, ended.stderr) == (1, "bye\n")
    assert (python.execute("y").value, python.execute("y").note) == ("2", None)


def test_a_limit_of_tool_calls_is_one_of_each_script(python: PythonSession) -> None:
    code = "import hermes_tools\nfor n in range(3): last = hermes_tools.add(n, n)\nlast"
    assert python.execute(code, max_tool_calls=3).value == "4"
    refused = python.execute(code, max_tool_calls=2)
    assert refused.limit == "The limit of 2 tool calls (max_tool_calls) was reached: 1 tool call was refused."
    assert "hermes_tools.ToolError: add: the limit of 2 tool calls" in refused.stderr
    assert python.execute("last", max_tool_calls=0).value == "2"
    other = python.execute("hermes_tools.less(5, 3)", tools={"less": lambda a, b: a - b})
    assert other.value == "2"
    assert "no 'less'" in python.execute("hermes_tools.less").stderr


def test_time_that_is_over_interrupts_the_script_and_keeps_the_variables(python: PythonSession) -> None:
    result = python.execute("import time\nz = 5\ntime.sleep(60)", timeout=1)
    assert (result.status, result.exit_code, result.note) == ("timeout", 124, None)
    assert result.error == "Script timed out after 1s and was interrupted."
    assert "KeyboardInterrupt" in result.stderr
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    result = python.execute("z += 1\ntime.sleep(60)", interrupt=stop)
    assert (result.status, result.exit_code, result.note) == ("interrupted", 130, None)
    result = python.execute("try:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('saved')", timeout=1)
    assert (result.status, result.output.splitlines()[0]) == ("timeout", "saved")
    assert python.execute("z").value == "6"


def test_a_script_that_ignores_its_interrupt_is_killed(python: PythonSession) -> None:
    stubborn = (
        "w = 1\nwhile True:\n    try: __import__('time').sleep(60)\n    except KeyboardInterrupt: print('not me')"
    )
    python.execute("1")  # on a loaded machine, the Python may not start within the time-out
    began = time.monotonic()
    result = python.execute(stubborn, timeout=0.5)
    assert time.monotonic() - began < 60
    assert (result.status, result.exit_code, result.note) == ("timeout", 124, GONE)
    assert "not me" in result.output
    after = python.execute("'w' in globals()")
    assert (after.value, after.note) == ("False", RESTARTED)
    assert python.execute("1").note is None


def test_a_script_that_ends_its_python_costs_the_variables_and_no_more(python: PythonSession) -> None:
    for deed, code in (("os._exit(7)", 7), ("os.kill(os.getpid(), 9)", 137), ("os.closerange(3, 999); 1", None)):
        result = python.execute(f"import os; {deed}")
        assert result.status == "error" if code else True
        assert code is None or result.exit_code == code
        assert python.execute("import os; os.getpid() > 0").value == "True"


def test_a_script_that_forks_stays_one(python: PythonSession) -> None:
    python.execute("import os\nkept = os.getpid()")
    result = python.execute("child = os.fork()\nif child: os.waitpid(child, 0)\nprint('one of two')\n1")
    assert sorted(result.output.split()) == sorted(["one", "of", "two", "one", "of", "two"])
    assert python.execute("os.getpid() == kept").value == "True"


def test_output_between_two_scripts_is_in_neither(python: PythonSession) -> None:
    code = """
import threading, time
go, said = threading.Event(), threading.Event()
def late():
    go.wait(60); time.sleep(0.3); print("between"); said.set()
threading.Thread(target=late, daemon=True).start()
go.set()
"""
    assert python.execute(code).output == ""
    time.sleep(1)
    assert python.execute("said.wait(60)").value == "True"
    assert "between" not in python.execute("print('mine')").output


def test_nothing_is_left_of_a_session(anywhere: BaseEnvironment, nap: str) -> None:
    threads = threading.active_count()
    with PythonSession(anywhere) as session:
        session.execute(f"import subprocess; subprocess.Popen(['sleep', '{nap}'], start_new_session=True)")
        assert running(anywhere, nap) != ""
        assert session.execute("1").value == "1"
        session.reset()
        assert running(anywhere, nap) == ""
        assert (session.execute("'subprocess' in globals()").value, session.execute("1").note) == ("False", None)
        assert len(scripts_directories(anywhere)) == 1
    assert scripts_directories(anywhere) == []
    assert wait_until(lambda: threading.active_count() <= threads + 4, 60)
