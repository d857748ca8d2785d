"""What is traced: this machine's environment, which does each thing some times, and says in between which that was.

Each is done so often, and then twice as often. What both have in common, such as what the first has found to do still
from before, is no part of the difference.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from targets.ready_python import server_of

from code_execution import execute_code
from code_execution.script_run import TransportName
from environments import BaseEnvironment, create_environment

MARK = "/hermes-cost/"
"""What the name of no file begins with. To ask for one is a system call, which says what is done next."""
COMMANDS, PROCESSES, SCRIPTS, CALLS = 4, 2, 2, 5
"""How often each is done."""
PAUSE = 0.3
_CALLING = f"""
import os
from hermes_tools import noop
def repeat(times):
    for _ in range(times):
        noop()
repeat(3)
for part, times in enumerate(({CALLS}, {2 * CALLS})):
    os.access("{MARK}{{name}} {CALLS} %d" % part, os.F_OK)
    repeat(times)
os.access("{MARK}- 1 0", os.F_OK)
"""


def mark(name: str, times: int = 1, part: int = 0) -> None:
    os.access(f"{MARK}{name} {times} {part}", os.F_OK)


def repeated(name: str, times: int, action: Callable[[], object]) -> None:
    action()
    action()
    for part in range(2):
        mark(name, times, part)
        for _ in range(times * (part + 1)):
            action()
    mark("-")


def noop() -> None:
    """Do nothing."""


def run(env: BaseEnvironment, code: str, transport: TransportName = "auto") -> None:
    tools = {"noop": noop} if "noop" in code else {}
    result = execute_code(code, env=env, tools=tools, transport=transport, max_tool_calls=100, timeout=100)
    if result.status != "success":
        sys.exit(result.output)


def scripts(env: BaseEnvironment, how: str) -> None:
    repeated(f"script, {how}", SCRIPTS, lambda: run(env, "print(1)"))
    repeated(f"script with a tool call, {how}", SCRIPTS, lambda: run(env, "import hermes_tools; hermes_tools.noop()"))


def fork_none(home: str) -> None:
    """Have each script start a Python of its own from here on."""
    Path(home, "config.yaml").write_text('code_execution: {warm: "off"}\n')
    os.environ["HERMES_HOME"] = home


def tool_calls(env: BaseEnvironment, transport: TransportName) -> None:
    run(env, _CALLING.replace("{name}", f"tool call, {transport}"), transport)


def start_and_wait(env: BaseEnvironment) -> None:
    env.start("true", stdin="none").wait()


def main() -> None:
    with create_environment("local") as env, tempfile.TemporaryDirectory() as home:
        for _ in range(3):  # what is opened along with the first command is there behind the next ones
            env.execute("true")
            env.execute_oneshot("true")
        time.sleep(PAUSE)
        repeated("execute, builtin", COMMANDS, lambda: env.execute("true"))
        repeated("execute, program", COMMANDS, lambda: env.execute("/bin/true"))
        repeated("execute, output", COMMANDS, lambda: env.execute("printf '%0100000d'"))
        repeated("execute_oneshot, builtin", COMMANDS, lambda: env.execute_oneshot("true"))
        repeated("execute_oneshot, program", COMMANDS, lambda: env.execute_oneshot("/bin/true"))
        repeated("execute_oneshot, text", COMMANDS, lambda: env.execute_oneshot("x=1; echo $x"))
        repeated("start and wait", PROCESSES, lambda: start_and_wait(env))
        for transport in ("socket", "relay", "file"):
            tool_calls(env, transport)
        server_of(env)
        scripts(env, "forked")
        fork_none(home)
        scripts(env, "started")
        time.sleep(PAUSE)
        mark("idle")
        time.sleep(PAUSE)
        mark("idle", part=1)
        time.sleep(2 * PAUSE)
        mark("-")


if __name__ == "__main__":
    main()
