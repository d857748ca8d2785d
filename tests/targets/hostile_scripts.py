"""Tests of unreviewed scripts, for any environment with a Python. The importing module has a fixture `anywhere`."""

from __future__ import annotations

import functools
import threading
import time
from pathlib import Path

from code_execution import ExecutionResult, execute_code
from code_execution.limits import SCRIPT_GRACE
from environments import BaseEnvironment
from targets.renew_check import grep_processes

LONG = 60.0
"""Extra seconds for a loaded machine."""
PROMISED = SCRIPT_GRACE + 5.0


def scripts_directories(env: BaseEnvironment) -> list[str]:
    return env.execute_oneshot(f"ls -d {env.internal.scratch_directory()}/script-* 2>/dev/null; :").output.split()


def running(env: BaseEnvironment, word: str) -> str:
    """Return the target's processes with a word among their arguments."""
    return env.execute_oneshot(grep_processes(word)).output


def run_within_limits(env: BaseEnvironment, code: str, timeout: float = 5.0, **options: object) -> ExecutionResult:
    began = time.monotonic()
    result = execute_code(code, env=env, timeout=timeout, **options)  # type: ignore[arg-type]
    assert time.monotonic() - began < timeout + PROMISED + LONG
    assert env.execute("echo goes on").output == "goes on\n"
    return result


MAKES_DEEP_DIRECTORIES = """
import os
os.chdir(os.path.dirname(os.path.abspath(__file__)))
for _ in range(1500):
    os.mkdir("d"); os.chdir("d")
os.chmod(".", 0)
print("made")
raise SystemExit(3)
"""


def test_deep_directories_in_its_own_directory_go(anywhere: BaseEnvironment) -> None:
    result = run_within_limits(anywhere, MAKES_DEEP_DIRECTORIES, timeout=30, mode="strict")
    assert (result.output, result.exit_code) == ("made", 3)
    assert scripts_directories(anywhere) == []


CLOSES_ALL = 'import os; os.fork() or (os.setsid(), os.closerange(0, 999), os.execlp("sleep", "sleep", "NAP"))'


def test_background_processes_of_a_tool_call_end_with_the_script(anywhere: BaseEnvironment, nap: str) -> None:
    ways = [
        f"setsid sleep 1{nap} >/dev/null 2>&1 &",
        f"(setsid nohup sleep 2{nap} </dev/null >/dev/null 2>&1 &)",
        f"python3 -c '{CLOSES_ALL.replace('NAP', '3' + nap)}'",
        f"env -i setsid sleep 4{nap} >/dev/null 2>&1 &",
        f"python3 -c '{CLOSES_ALL.replace('NAP', '5' + nap)}'",
    ]
    anywhere.execute(f"sleep 9{nap} >/dev/null 2>&1 &")  # a child of the session: it stays
    code = f"from hermes_tools import terminal\nprint([terminal(each)['exit_code'] for each in {ways!r}])"
    assert run_within_limits(anywhere, code, timeout=60).output == "[0, 0, 0, 0, 0]\n"
    assert len(running(anywhere, nap).split()) == 1


def test_a_process_that_a_tool_of_ours_started_ends_with_the_script(anywhere: BaseEnvironment, nap: str) -> None:

    def serve() -> int:
        return anywhere.start(f"sleep {nap}").pid

    run_within_limits(anywhere, "import hermes_tools; hermes_tools.serve()", timeout=60, tools={"serve": serve})
    assert running(anywhere, nap) == ""


def test_a_script_does_not_choose_the_python_of_the_next_one(anywhere: BaseEnvironment) -> None:
    code = """
from hermes_tools import terminal
terminal("mkdir -p fake/bin; printf '#!/bin/sh\\necho taken over\\n' >fake/bin/python; chmod +x fake/bin/python")
terminal("export VIRTUAL_ENV=$PWD/fake; touch seen")
"""
    run_within_limits(anywhere, code, timeout=60)
    assert execute_code("print('ours')", env=anywhere).output == "ours\n"
    assert anywhere.execute("true").ok
    assert execute_code("print('ours')", env=anywhere).output == "ours\n"


WRITES_TO_EACH_FIFO = """
import os, stat, sys
scratch, nap = os.path.dirname(os.path.dirname(os.path.abspath(__file__))), sys.argv[1]
evil = scratch + "/script-evil0001"
os.mkdir(evil)
with open(evil + "/script.py", "w") as file: file.write(f"import os; os.execlp('sleep', 'sleep', '{nap}')")
asked = 0
for place, _, names in os.walk(scratch):
    for name in names:
        path = place + "/" + name
        if stat.S_ISFIFO(os.lstat(path).st_mode):
            try: pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError: continue
            asked += os.write(pipe, f"{os.getpid()} {evil}\\n".encode()) > 0
print(asked)
"""


def test_no_process_in_the_target_takes_orders_that_a_script_could_forge(anywhere: BaseEnvironment, nap: str) -> None:
    """A helper process in the target once read orders from a FIFO, and took a script's forged line for ours."""
    for _ in range(2):
        assert run_within_limits(anywhere, WRITES_TO_EACH_FIFO, timeout=60, argv=[nap], tools={}).output == "0\n"
        anywhere.execute_oneshot(f"rm -r {anywhere.internal.scratch_directory()}/script-evil0001")
    assert running(anywhere, nap) == ""


STOPS_THE_PYTHON_ABOVE_IT = """
import os, signal
with open(f"/proc/{os.getppid()}/comm") as file: is_python = "python" in file.read()
if is_python: os.kill(os.getppid(), signal.SIGSTOP)
"""


def test_a_script_that_stops_the_python_above_it_holds_up_no_other(anywhere: BaseEnvironment) -> None:
    """A helper process in the target once started scripts. Stopped by a script, each later script began 5 s late."""
    for _ in range(2):
        run_within_limits(anywhere, STOPS_THE_PYTHON_ABOVE_IT, timeout=2)
        assert run_within_limits(anywhere, "print('at once')", timeout=5).output == "at once\n"
    assert scripts_directories(anywhere) == []


FORGES_ITS_END = r"""
nonce=$(set | sed -n 's/.*.036\([0-9a-f]\{16\}\) M.*/\1/p' | head -n 1)
number=${HERMES_COMMAND%/}
printf '\036%s M%s\0%s\0%s\0/\0\0\0\0' "$nonce" "${number##*/}" 42 0
sleep 1
"""


def test_a_forged_end_of_a_command_reaches_no_other_command(anywhere: BaseEnvironment) -> None:
    """A command can read the nonce of the session's shell, and so forge its own end. It cannot forge another one's."""
    result = anywhere.execute(FORGES_ITS_END)
    assert result.exit_code == 42
    for number in range(5):
        result = anywhere.execute(f"echo {number}; (exit {number})")
        assert (result.output, result.exit_code) == (f"{number}\n", number)


def test_a_bound_credential_is_nowhere_in_the_target(anywhere: BaseEnvironment) -> None:
    def query(sql: str, api_key: str) -> str:
        return f"{sql}: {len(api_key)}"

    code = """
import hermes_tools
print("sk-live" in open(hermes_tools.__file__).read())
print(hermes_tools.query("SELECT 1"))
try: hermes_tools.query("SELECT 1", api_key="mine")
except hermes_tools.ToolError as error: print("unexpected keyword argument 'api_key'" in str(error))
"""
    tools = {"query": functools.partial(query, api_key="sk-live-1234")}
    assert execute_code(code, env=anywhere, tools=tools).output == "False\nSELECT 1: 12\nTrue\n"


def test_nothing_of_a_script_is_left(anywhere: BaseEnvironment, nap: str) -> None:
    before = threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))
    code = f"import hermes_tools, subprocess; hermes_tools.t(); subprocess.Popen(['sleep', '{nap}'])"
    for transport in ("auto", "file"):
        run_within_limits(anywhere, code, timeout=60, tools={"t": lambda: 1}, transport=transport)
    assert scripts_directories(anywhere) == []
    assert running(anywhere, nap) == ""
    after = threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))
    assert after[0] <= before[0] + 4
    assert after[1] <= before[1] + 60
