"""`execute_code`: its arguments, who has a say before the script, and what is told of it."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

from code_execution.limits import Limits, Tools, TransportName, checked_code, checked_environment, checked_tools
from code_execution.mcp.settings import McpServer, called_by, servers_of
from code_execution.output import LiveOutput
from code_execution.result import INTERRUPTED_MESSAGE, ExecutionResult
from code_execution.run import Script, run_script
from code_execution.session import EnvironmentSessions, ScriptSession
from code_execution.settings import Mode, load_code_execution_settings
from code_execution.time_budget import Interruption, OutOfTimeError, TimeBudget
from environments.base import BaseEnvironment
from environments.errors import (
    DENIED,
    EnvironmentLostError,
    EnvironmentStartError,
    SettingsError,
    TerminalError,
    UnsupportedError,
)
from environments.extras import missing_library
from environments.loop import Call, run
from environments.observation.events import UNOBSERVED, Facts, Operation
from environments.observation.events import interruption as kind_of_interruption
from environments.output import TextCallback, byte_size
from environments.tasks import get_environment
from hermes_tools import script_tools
from rpc import ToolCallCallback, ToolErrors

if TYPE_CHECKING:
    from environments.approvals import ScriptHook, ToolCallHook


class ScriptOptions(TypedDict, total=False):
    """What `execute_code` takes for a script of a session."""

    tools: Tools | None
    timeout: float | None
    max_tool_calls: int | None
    interrupt: threading.Event | None
    on_output: TextCallback | None
    on_tool_call: ToolCallCallback | None
    tool_errors: ToolErrors | None
    argv: Sequence[str]
    mcp_servers: bool | None
    before_script: ScriptHook | None
    before_tool_call: ToolCallHook | None
    record: str | os.PathLike[str] | None


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
    session: ScriptSession | str | bool | None = None,
) -> ExecutionResult:
    """Run a Python script in an environment. It may call tools, which run here, through `import hermes_tools`.

    The script is a process of its own beside the session, in the session's working directory, so that `terminal`
    called from it has the session for itself. Nothing it started outlives the call.

    Args:
        code: The script's source.
        env: Where it runs; None is the configured environment, see `environments.tasks.get_environment`.
        tools: Tool name to any Python function; None is `hermes_tools`, an empty mapping means no tools.
        timeout: Seconds until the script and all it started is ended; None is the setting, 300 by default.
        max_tool_calls: How many tool calls it may make; None is the setting, 50 by default.
        mode: `"project"` runs it in the session's working directory with its active Python; `"strict"` in its
            own directory with our Python. None is the setting, `"project"` by default.
        transport: How its calls travel: `"socket"`, `"relay"`, `"file"`, or `"auto"` for the fastest that works there.
        interrupt: Ends the script when it is set, as a cancelled `CancelScope` does that it was called in.
        on_output: Called with each piece of its standard output as it arrives, in the thread that calls this.
        on_tool_call: Called with a `ToolCall` after each tool call, before the script has the answer; in the call's
            thread, and so several times at once. What it raises is logged and passed over.
        tool_errors: What a refused tool call does in the script: `"raise"` `ToolError`, or `"return"`
            `{"error": ...}`, as a tool that fails does. None is the setting, `"raise"` by default.
        argv: The script's arguments, `sys.argv[1:]`.
        session_env: Whether it sees what the session has exported, too, as its last command left it. Of that it does
            not see what is named as secrets are, unless it is allowed by name; see docs/scripts.md.
        mcp_servers: Whether it may call the tools of the MCP servers that the settings name, too; None says yes unless
            `tools` are given. See docs/mcp.md.
        before_script: Decides whether the script may run, in place of the environment's; see docs/approvals.md.
        before_tool_call: Decides on each of its tool calls, in place of the environment's.
        record: A file here that a record of it and of all that its tools do is added to, beside the environment's; see
            docs/records.md.
        session: The Python that runs it, in place of one of its own, with what the scripts before have defined. A name,
            of at most 64 characters, is that of a Python that the environment keeps until its cleanup, eight at most;
            True is the one without a name. The environment and the mode are then the session's, and so is what is not
            given of `tools`, `timeout`, `max_tool_calls`, `tool_errors` and `mcp_servers`. None is as the setting
            `kernel_mode` says: False at first.

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
    settings = load_code_execution_settings()
    if session == "":
        raise ValueError("session is an empty name; give one, or True for the session without a name")
    if session is True or isinstance(session, str) or (session is None and settings.kernel_mode == "session"):
        env = get_environment() if env is None else checked_environment(env, "aexecute_code")
        name = session if isinstance(session, str) else ""
        session = env.attachments.get(EnvironmentSessions).of(env, name, mode or settings.mode, bool(session_env))
    if session:
        session.check_options(env, mode, transport, session_env)
        env, mode, session_env = session.env, session.mode, session.session_env
        tools = session.tools if tools is None else tools
        timeout = session.timeout if timeout is None else timeout
        max_tool_calls = session.max_tool_calls if max_tool_calls is None else max_tool_calls
        tool_errors = session.tool_errors if tool_errors is None else tool_errors
        mcp_servers = session.mcp_servers if mcp_servers is None else mcp_servers
    limits = Limits.checked(settings, timeout, max_tool_calls, mode, transport, tool_errors, session_env)
    env = get_environment() if env is None else checked_environment(env, "aexecute_code")
    handlers = script_tools(env) if tools is None else checked_tools(tools)
    with_servers = tools is None if mcp_servers is None else mcp_servers
    servers = called_by(code, servers_of(limits.settings.mcp_servers)) if with_servers else {}
    asked = ScriptCall(
        Script(
            env,
            checked_code(code),
            argv,
            limits,
            handlers,
            Interruption(interrupt),
            env.gate.tool_call_check(before_tool_call),
            on_tool_call,
        ),
        servers,
        before_script,
        on_output,
        session.run_script if session else run_script,
    )
    with _observed(asked.script, tools, record) as operation:
        return _record_result(operation, asked.result())


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A script that was asked for, with arguments that are in order."""

    script: Script
    servers: Mapping[str, McpServer]
    """The MCP servers that it calls, by what their tools' names begin with."""
    before_script: ScriptHook | None
    on_output: TextCallback | None
    run: Callable[[Call[Any], Script, float], Awaitable[Callable[[], ExecutionResult]]]
    """Runs it, on the loop."""

    def result(self) -> ExecutionResult:
        """Run the script, and return for a result what is raised, but for what is not the script's doing."""
        began = time.monotonic()
        with errors_as_results(self.script.env, began) as failed:
            return self._if_allowed(began)
        return failed[0]

    def _if_allowed(self, asked: float) -> ExecutionResult:
        script = self.script
        interrupted = script.interruption.is_set
        gate = script.env.gate
        if not gate.permits_script(script.code, script.limits.mode, self.before_script, interrupted) or interrupted():
            seconds = time.monotonic() - asked
            return ExecutionResult("interrupted", INTERRUPTED_MESSAGE, 0, seconds, None, INTERRUPTED_MESSAGE)
        began = time.monotonic()  # whoever was asked has taken time that is not the script's
        if not self.servers:
            return self._run(script, began)
        budget = TimeBudget(script.limits.timeout, began, script.interruption)
        budget.begin_step(f"starting the MCP servers: {', '.join(sorted(self.servers))}")
        try:
            from code_execution.mcp.servers import running_servers
        except ImportError:
            raise missing_library("code_execution.mcp_servers", "mcp", "mcp") from None
        with contextlib.ExitStack() as stack:
            try:
                found = stack.enter_context(running_servers(self.servers, budget, script.tools.keys()))
            except (OutOfTimeError, TerminalError) as error:
                if result := budget.result_of(error):
                    return result
                if isinstance(error, SettingsError):  # a result, as of a server that does not start
                    raise TerminalError(str(error)) from error
                raise
            return self._run(replace(script, tools=checked_tools({**script.tools, **found})), began)

    def _run(self, script: Script, began: float) -> ExecutionResult:
        shown = LiveOutput(self.on_output, script.env.model_view()) if self.on_output else None
        made = run(lambda call: self.run(call, script, began), shown)
        if shown:
            shown.finish()
        return made()


@contextlib.contextmanager
def errors_as_results(env: BaseEnvironment, began: float) -> Iterator[list[ExecutionResult]]:
    """Have a TerminalError in the block be a result, the one item of the list, but for what is not the script's doing.

    Raises:
        EnvironmentLostError, EnvironmentStartError, SettingsError, UnsupportedError: As they are.
    """
    failed: list[ExecutionResult] = []
    try:
        yield failed
    except TerminalError as error:
        env.model_view().hide_in(error)
        if isinstance(error, EnvironmentLostError | EnvironmentStartError | SettingsError | UnsupportedError):
            raise
        failed.append(not_run(str(error), time.monotonic() - began))


def not_run(why: str, seconds: float = 0.0) -> ExecutionResult:
    """Return the result of a script that was not run, or whose end is not known."""
    return ExecutionResult("error", why, 0, seconds, None, why)


# What those who look on are told.


def _observed(script: Script, tools: Tools | None, record: str | os.PathLike[str] | None) -> Operation:
    """Return what tells of a script that is about to be run.

    Raises:
        SettingsError: The record cannot be written.
    """
    limits = script.limits

    def facts() -> Facts:
        return {
            "script": script.code,
            "arguments": list(script.argv),
            "mode": limits.mode,
            "transport": limits.transport,
            "timeout": limits.timeout if math.isfinite(limits.timeout) else None,
            "max_tool_calls": limits.max_tool_calls,
            "tools": None if tools is None else sorted(tools),
        }

    return script.env.observation.observed("script", script.code, facts, record)


def _record_result(operation: Operation, result: ExecutionResult) -> ExecutionResult:
    """Tell what came of a script, and return it."""
    if operation is not UNOBSERVED:
        denied = result.exit_code is None and (result.error or "").startswith(DENIED)
        operation.add_facts(
            status="denied" if denied else kind_of_interruption() if result.status == "interrupted" else result.status,
            exit_code=result.exit_code,
            output=result.output,
            stderr=result.stderr or None,
            output_bytes=byte_size(result.output),
            error=result.error,
            tool_calls=result.tool_calls_made,
            ran=result.duration_seconds,
        )
    return result
