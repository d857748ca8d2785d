"""`execute_code`, awaited: its tools and callbacks may be coroutine functions of the caller's own event loop."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence

from code_execution import ExecutionResult, execute_code
from code_execution.limits import TransportName
from code_execution.settings import Mode
from environments import BaseEnvironment
from hermes_env.aio.calls import awaited_at_home, in_thread
from hermes_env.aio.environment import AsyncEnvironment
from rpc import ToolErrors

Callback = Callable[..., object]
"""A function as `execute_code` takes it, or the same as a coroutine function."""


async def aexecute_code(
    code: str,
    *,
    env: AsyncEnvironment | BaseEnvironment | None = None,
    tools: Mapping[str, Callable[..., object]] | None = None,
    timeout: float | None = None,
    max_tool_calls: int | None = None,
    mode: Mode | None = None,
    transport: TransportName = "auto",
    interrupt: threading.Event | None = None,
    on_output: Callback | None = None,
    on_tool_call: Callback | None = None,
    tool_errors: ToolErrors | None = None,
    argv: Sequence[str] = (),
    session_env: bool = False,
    mcp_servers: bool | None = None,
    before_script: Callback | None = None,
    before_tool_call: Callback | None = None,
    record: str | os.PathLike[str] | None = None,
) -> ExecutionResult:
    """Run a Python script in an environment, see `code_execution.execute_code`: the same arguments, awaited.

    What is a coroutine function of `tools`, or a callback, is awaited on the loop of the task that awaits this one, so
    that it may use the clients, locks and queues of that loop. Several run side by side. A tool may await calls of the
    same environment. When the task is cancelled, the script, its tools and all they started are ended first; when the
    script ends, so do tools that are still awaited.

    Returns:
        The result, as of `execute_code`.

    Raises:
        EnvironmentStartError: As `execute_code` does, and all its other errors.
    """
    given = dict(locals())
    given["env"] = env.sync if isinstance(env, AsyncEnvironment) else env

    def run() -> ExecutionResult:
        # Here, as this thread knows the loop that awaits them, and those that call tools do not.
        for name in ("on_output", "on_tool_call", "before_script", "before_tool_call"):
            given[name] = given[name] and awaited_at_home(given[name])
        given["tools"] = tools and {name: awaited_at_home(tool) for name, tool in tools.items()}
        return execute_code(**given)

    return await in_thread(run, "scripts")
