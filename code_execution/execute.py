"""`execute_code`: its arguments, and what they are when they are not given."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, get_args

from code_execution.interruption import Interruption
from code_execution.mcp.for_script import called_by
from code_execution.mcp.server_settings import servers_of
from code_execution.observed_script import came_of_script, observed_script
from code_execution.result import ExecutionResult
from code_execution.script_call import Callbacks, ScriptCall, checked_tools, not_run
from code_execution.script_run import Limits, Tools, TransportName
from code_execution.settings import Mode, load_code_execution_settings
from environments.base import BaseEnvironment
from environments.loop import Worker, in_worker, run, shielded, spawn
from environments.manager import get_environment
from environments.output import TextCallback
from hermes_tools import script_tools
from rpc import ToolCallCallback, ToolErrors

if TYPE_CHECKING:
    from environments.approvals import ScriptHook, ToolCallHook


def execute_code(
    code: str,
    *,
    env: BaseEnvironment | None = None,
    tools: Tools | None = None,
    timeout: float | None = None,
    max_tool_calls: int | None = None,
    mode: Mode | None = None,
    transport: TransportName = "auto",
    interrupt: threading.Event | None = None,
    on_output: TextCallback | None = None,
    on_tool_call: ToolCallCallback | None = None,
    tool_errors: ToolErrors | None = None,
    argv: Sequence[str] = (),
    session_env: bool = False,
    mcp_servers: bool | None = None,
    before_script: ScriptHook | None = None,
    before_tool_call: ToolCallHook | None = None,
    record: str | os.PathLike[str] | None = None,
) -> ExecutionResult:
    """Run a Python script in an environment. It may call tools, which run here, through `import hermes_tools`.

    The script is a process of its own beside the session, in the session's working directory, so that `terminal`
    called from it has the session for itself. Nothing it started outlives the call.

    Args:
        code: The script's source.
        env: Where it runs; None is the configured environment, see `environments.manager.get_environment`.
        tools: Tool name to any Python function; None is `hermes_tools`, an empty mapping means no tools.
        timeout: Seconds until the script and all it started is ended; None is the setting, 300 by default.
        max_tool_calls: How many tool calls it may make; None is the setting, 50 by default.
        mode: `"project"` runs it in the session's working directory with its active Python; `"strict"` in its
            own directory with our Python. None is the setting, `"project"` by default.
        transport: How its calls travel: `"socket"`, `"relay"`, `"file"`, or `"auto"` for the fastest that works there.
        interrupt: Ends the script when it is set, as a cancelled `CancelScope` does that it was called in.
        on_output: Called with each piece of its standard output as it arrives, in another thread.
        on_tool_call: Called with a `ToolCall` after each tool call, before the script has the answer; in the call's
            thread, and so several times at once. What it raises is logged and passed over.
        tool_errors: What a refused tool call does in the script: `"return"` `{"error": ...}`, as a tool that fails
            does, or `"raise"` `ToolError`. None is the setting, `"return"` by default.
        argv: The script's arguments, `sys.argv[1:]`.
        session_env: Whether it sees what the session has exported, too, as its last command left it. Of that it does
            not see what is named as secrets are, unless it is allowed by name; see docs/scripts.md.
        mcp_servers: Whether it may call the tools of the MCP servers that the settings name, too; None says yes unless
            `tools` are given. See docs/mcp-tools.md.
        before_script: Decides whether the script may run, in place of the environment's; see docs/approvals.md.
        before_tool_call: Decides on each of its tool calls, in place of the environment's.
        record: A file here that a record of it and of all that its tools do is added to, beside the environment's; see
            docs/records.md.

    Returns:
        The result, also for a script that failed, timed out, was interrupted, was denied, or could not be staged.

    Raises:
        EnvironmentStartError: The environment could not be started.
        EnvironmentLostError: The environment went away while the script ran.
        SettingsError: The settings are not in order.
        UnsupportedError: The environment has no Python, or can't do the transport.
        TerminalError: The tools of an MCP session could not be had.
        TypeError: The code is not text, or the environment is none.
        ValueError: An argument has a value that is not allowed.
    """
    if sys.platform == "win32":
        return not_run("execute_code is not available on Windows: it needs a POSIX shell and Unix sockets.")
    limits = _checked(code, timeout, max_tool_calls, mode, transport, tool_errors, session_env)
    env = get_environment() if env is None else _checked_environment(env)
    handlers = script_tools(env) if tools is None else checked_tools(tools)
    with_servers = tools is None if mcp_servers is None else mcp_servers
    servers = called_by(code, servers_of(limits.settings.mcp_servers)) if with_servers else {}
    callbacks = Callbacks(before_script, before_tool_call, on_output, on_tool_call)
    interruption = Interruption(interrupt)
    call = ScriptCall(env, code, argv, limits, handlers, servers, interruption, callbacks)

    def result() -> ExecutionResult:
        with observed_script(env, code, limits, tools, argv, record) as seen:
            return came_of_script(seen, call.result())

    if isinstance(threading.current_thread(), Worker):  # where nothing is raised from outside
        return result()
    return run(lambda _: _in_worker(result, interruption))


async def _in_worker(work: Callable[[], ExecutionResult], interruption: Interruption) -> ExecutionResult:
    """Run a script from a worker thread. What is raised in the thread that waits for it interrupts the script."""
    running = spawn(in_worker(work))
    try:
        return await shielded(running)
    except asyncio.CancelledError:
        interruption.come()
        raise


def _checked_environment(env: object) -> BaseEnvironment:
    if not isinstance(env, BaseEnvironment):
        raise TypeError(
            f"env is of type {type(env).__name__}; give an environment, as create_environment returns it (one that is "
            "awaited goes with hermes_env.aio.aexecute_code)"
        )
    return env


def _checked(
    code: str,
    timeout: float | None,
    max_tool_calls: int | None,
    mode: Mode | None,
    transport: TransportName,
    tool_errors: ToolErrors | None,
    session_env: bool,
) -> Limits:
    settings = load_code_execution_settings()
    limits = Limits(
        settings,
        settings.timeout if timeout is None else timeout,
        settings.max_tool_calls if max_tool_calls is None else max_tool_calls,
        settings.mode if mode is None else mode,
        transport,
        settings.tool_errors if tool_errors is None else tool_errors,
        bool(session_env),
    )
    if not isinstance(code, str):
        raise TypeError(f"code is of type {type(code).__name__}; give the script's source as text")
    try:
        code.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"code holds a lone surrogate at character {error.start}, which is not text") from None
    if not limits.timeout > 0:
        raise ValueError(f"timeout is {limits.timeout} s; give a positive number")
    if limits.max_tool_calls < 0:
        raise ValueError(f"max_tool_calls is {limits.max_tool_calls}; give 0 or more")
    for name, value, allowed in (
        ("mode", limits.mode, get_args(Mode)),
        ("transport", limits.transport, get_args(TransportName)),
        ("tool_errors", limits.tool_errors, get_args(ToolErrors)),
    ):
        if value not in allowed:
            raise ValueError(f"{name} is {value!r}; allowed: {', '.join(allowed)}")
    return limits
