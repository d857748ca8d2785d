"""Counts the processes and threads of operations, in a PID namespace of its own: `python -m cost.program`, as JSON.

Each operation runs several times, and then twice as many times. The cost is the difference, so that common costs, such
as work left over from before, do not count.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from code_execution import execute_code
from code_execution.limits import TransportName
from environments import BaseEnvironment, create_environment

LAST_PROCESS = Path("/proc/sys/kernel/ns_last_pid")
"""The file with the id of the process or thread that was started last in this namespace."""
COMMANDS, SCRIPTS, CALLS = 4, 2, 5
"""The number of runs of each."""
_CALLING = f"from hermes_tools import note\nfor _ in range({4 * CALLS}): note()"


def started() -> int:
    return int(LAST_PROCESS.read_text())


def cost_of(times: int, action: Callable[[], object]) -> float:
    for _ in range(3):
        action()
    counts = []
    for each in (times, 2 * times):
        before = started()
        for _ in range(each):
            action()
        counts.append(started() - before)
    return (counts[1] - counts[0]) / times


def run(env: BaseEnvironment, code: str, transport: TransportName = "auto") -> list[int]:
    """Run a script, and return the number of processes and threads started until each of its calls."""
    seen: list[int] = []
    tools = {"note": lambda: seen.append(started())} if "note" in code else {}
    result = execute_code(code, env=env, tools=tools, transport=transport, max_tool_calls=100, timeout=100)
    if result.status != "success":
        sys.exit(result.output)
    return seen


def cost_of_calls(env: BaseEnvironment, transport: TransportName) -> float:
    seen = run(env, _CALLING, transport)
    return (seen[3 * CALLS] - seen[CALLS]) / (2 * CALLS)


def main() -> None:
    with tempfile.TemporaryDirectory() as home, create_environment("local") as env:
        os.environ["HERMES_HOME"] = home
        commands: dict[str, Callable[[], object]] = {
            "execute, builtin": lambda: env.execute("true"),
            "execute, program": lambda: env.execute("/bin/true"),
            "execute, output": lambda: env.execute("printf '%0100000d'"),
            "execute_oneshot, builtin": lambda: env.execute_oneshot("true"),
            "execute_oneshot, program": lambda: env.execute_oneshot("/bin/true"),
            "start and wait": lambda: env.start("true", stdin="none").wait(),
        }
        for _ in range(3):  # the first command opens shells for later ones in the background
            env.execute("true")
            env.execute_oneshot("true")
        time.sleep(1)
        costs = {name: cost_of(COMMANDS, action) for name, action in commands.items()}
        transports: tuple[TransportName, ...] = ("socket", "relay", "file")
        costs |= {f"tool call, {transport}": cost_of_calls(env, transport) for transport in transports}
        costs["script"] = cost_of(SCRIPTS, lambda: run(env, "print(1)"))
        costs["script with a tool call"] = cost_of(
            SCRIPTS, lambda: run(env, "import hermes_tools; hermes_tools.note()")
        )
        time.sleep(1)
        before = started()
        time.sleep(1)
        costs["idle"] = started() - before
    print(json.dumps(costs))


if __name__ == "__main__":
    main()
