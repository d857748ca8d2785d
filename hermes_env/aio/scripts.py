"""`execute_code`, awaited: its tools and callbacks may be coroutine functions of the caller's own event loop."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from code_execution import ExecutionResult, execute_code
from code_execution.script_run import TransportName
from code_execution.settings import Mode
from environments import BaseEnvironment
from hermes_env.aio.calls import awaited_at_home, in_thread, limiter_for
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

    Args:
        code: The script's source.
        env: Where it runs, awaited or not; None is the configured environment.
        tools: Tool name to any Python function, `async def` included; all else as for `execute_code`.
        timeout: Seconds until the script and all it started is ended.
        max_tool_calls: How many tool calls it may make.
        mode: `"project"` or `"strict"`.
        transport: How its calls travel.
        interrupt: Ends the script when it is set.
        on_output: Called with each piece of its standard output as it arrives.
        on_tool_call: Called with a `ToolCall` after each tool call.
        tool_errors: What a refused tool call does in the script.
        argv: The script's arguments.
        session_env: Whether it sees what the session has exported, too.
        mcp_servers: Whether it may call the tools of the MCP servers that the settings name, too.
        before_script: Decides whether the script may run.
        before_tool_call: Decides on each of its tool calls.
        record: A file here that a record of it is added to.

    Returns:
        The result, as of `execute_code`.

    Raises:
        EnvironmentStartError: As `execute_code` does, and all its other errors.
    """
    beneath = env.sync if isinstance(env, AsyncEnvironment) else env

    def run() -> ExecutionResult:
        return execute_code(
            code,
            env=beneath,
            tools=tools if tools is None else {name: awaited_at_home(tool) for name, tool in tools.items()},
            timeout=timeout,
            max_tool_calls=max_tool_calls,
            mode=mode,
            transport=transport,
            interrupt=interrupt,
            on_output=_at_home(on_output),
            on_tool_call=_at_home(on_tool_call),
            tool_errors=tool_errors,
            argv=argv,
            session_env=session_env,
            mcp_servers=mcp_servers,
            before_script=_at_home(before_script),
            before_tool_call=_at_home(before_tool_call),
            record=record,
        )

    return await in_thread(run, limiter=limiter_for("scripts"))


def _at_home(callback: Callback | None) -> Callable[..., Any] | None:
    """Return a callback that is awaited on the loop; in the thread, which knows it, as those that call tools do not."""
    return awaited_at_home(callback) if callback else None
