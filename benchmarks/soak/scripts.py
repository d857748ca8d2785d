"""Scripts that call tools, and faults of scripts."""

from __future__ import annotations

import contextlib
import threading
import time

from benchmarks.soak.work import Work, expect
from code_execution import ExecutionResult, execute_code
from code_execution.limits import TransportName

LIMIT = 120.0
"""The time limit of a script that ends by itself, enough for any machine."""
_LARGE = 1_000_000


class ToolError(Exception):
    """An exception of a tool."""


def _echo(value: str) -> str:
    return value


def _large() -> str:
    return "x" * _LARGE


def _wait() -> None:
    time.sleep(0.05)


def _fail() -> None:
    raise ToolError("it was to")


_TOOLS = {"echo": _echo, "large": _large, "fail": _fail, "wait": _wait}


def transports(work: Work) -> list[TransportName]:
    """Return the transports of the backend."""
    can = work.env.capabilities
    ways: dict[TransportName, bool] = {"socket": can.same_machine, "relay": can.duplex, "file": True}
    return [name for name, possible in ways.items() if possible]


def _run(work: Work, code: str, **options: object) -> ExecutionResult:
    result = execute_code(code, env=work.env, **{"tools": _TOOLS, "timeout": LIMIT, **options})  # type: ignore[arg-type]
    work.calls += result.tool_calls_made
    return result


def calls(work: Work, due: int) -> None:
    """Run a script with several calls over a random transport. A call raises, and an answer is large."""
    transport = work.chance.choice(transports(work))
    sizes = [work.chance.choice((1, 10, 1000, 100_000)) for _ in range(due)]
    code = f"""
from hermes_tools import echo, fail, large
for number, size in enumerate({sizes}):
    if number == 1:
        assert len(large()) == {_LARGE}
    elif number == 2:
        assert "it was to" in fail()["error"]
    else:
        assert len(echo("x" * size)) == size
print("whole")
"""
    result = _run(work, code, transport=transport, max_tool_calls=due)
    expect(result.status == "success" and result.output == "whole\n", f"a script by {transport} is whole", result)
    expect(result.tool_calls_made == due, f"{due} calls were made", result.tool_calls_made)


def builtin_tools(work: Work, due: int) -> None:
    """Run a script that calls the built-in tools. Some run commands in the session."""
    code = f"""
from hermes_tools import read_file, search_files, terminal, write_file
path = {work.directory + "/of a script"!r}
assert terminal("echo from a script")["output"] == "from a script\\n"
assert "error" not in write_file(path, "written")
assert "written" in str(read_file(path))
assert "error" not in search_files("written", path={work.directory!r})
print("whole")
"""
    result = _run(work, code, tools=None)
    expect(result.output == "whole\n", "the tools work", result)


def fail(work: Work, due: int) -> None:
    """Run a script that exits with a code, or kills itself, after a large output."""
    ending = work.chance.choice(("sys.exit(3)", "os.kill(os.getpid(), 9)", "raise ValueError"))
    result = _run(work, f"import os, sys\nprint('x' * 300_000, flush=True)\n{ending}")
    expect(result.status == "error", "it has failed", result.status)


def time_out(work: Work, due: int) -> None:
    """Run a script into its time limit, sometimes in the middle of a call."""
    ending = work.chance.choice(("time.sleep(1000)", "\nwhile True: hermes_tools.wait()"))
    result = _run(work, f"import hermes_tools, time; {ending}", timeout=1.0, max_tool_calls=1000)
    expect(result.status == "timeout", "its time runs out", result)


def interrupt_script(work: Work, due: int) -> None:
    """Interrupt a script at a random moment."""
    interrupt = threading.Event()
    timer = threading.Timer(0.5 * work.chance.random(), interrupt.set)
    timer.start()
    result = _run(work, "import time; time.sleep(1000)", interrupt=interrupt)
    timer.join()
    expect(result.status == "interrupted", "it is interrupted", result)


def leave_processes_and_files(work: Work, due: int) -> None:
    """Run a script that leaves processes and files."""
    code = """
import os, subprocess
subprocess.Popen(["setsid", "sleep", "1000"])
subprocess.Popen(["sh", "-c", "sleep 1000 & sleep 1000"], stdout=subprocess.DEVNULL)
os.chdir(os.path.dirname(os.path.abspath(__file__)))
for number in range(50):
    open(f"file {number}", "w").close()
print("left")
"""
    expect(_run(work, code).output == "left\n", "it is whole")


def flood_connections(work: Work, due: int) -> None:
    """Run a script that opens very many connections without the token."""
    code = """
import hermes_tools, os, socket
hermes_tools.echo("begin")
path = hermes_tools._own()[1]
opened = []
for number in range(200):
    try:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(0.2)
        connection.connect(path)
        connection.sendall(b'{"id": ' + b"[" * 20_000)
        opened.append(connection)
    except OSError:
        pass
print("flooded")
"""
    transport = next(way for way in transports(work) if way != "file")
    expect(_run(work, code, transport=transport).output == "flooded\n", "it is whole")


_KILLS_RELAY = """
import os, hermes_tools
hermes_tools.echo("begin")
os.kill(os.getppid(), %d)
for _ in range(3):
    hermes_tools.echo("x" * 100_000)
"""


def kill_relay(work: Work, due: int) -> None:
    """Run a script that kills or stops its parent, the relay of its calls, and calls on."""
    if "relay" not in transports(work):
        return
    code = _KILLS_RELAY % work.chance.choice((9, 19))
    result = _run(work, code, transport="relay", timeout=3.0)
    expect(result.status in ("error", "timeout"), "its calls are not answered any more", result)


def raise_in_callback(work: Work, due: int) -> None:
    """Raise in a script's `on_output`."""

    def refuse(_: str) -> None:
        raise ToolError("it was to")

    with contextlib.suppress(ToolError):
        _run(work, "import time; print('begun', flush=True); time.sleep(1)", on_output=refuse, timeout=5.0)


FAULTY = {
    builtin_tools: 4,
    fail: 3,
    time_out: 2,
    interrupt_script: 3,
    leave_processes_and_files: 3,
    flood_connections: 2,
    kill_relay: 2,
    raise_in_callback: 1,
}
"""Each with its weight."""
ORDINARY_SHARE = 0.7
"""The share of scripts without a fault. They make all calls."""
