"""`execute_code`: arguments, approval of the script, and its record."""

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
from code_execution.output import LiveScriptOutput
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
    """Options of `execute_code` for a script in a session."""

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
    """Run a Python script in an environment. The script may call tools, which run here, through `import hermes_tools`.

    The script is a separate process in the session's working directory. The session stays free, so that `terminal`
    called from the script can use the session. All processes of the script end with the call.

    Args:
        code: The script's source.
        env: Environment for the script; None is the configured environment, see `environments.tasks.get_environment`.
        tools: Tool name to any Python function; None is `hermes_tools`, an empty mapping means no tools.
        timeout: Seconds until the script and all its processes are ended; None is the setting, 300 by default.
        max_tool_calls: Limit of tool calls; None is the setting, 50 by default.
        mode: `"project"` runs in the session's working directory with the session's active Python; `"strict"` in a
            directory of its own with the Python of this package. None is the setting, `"project"` by default.
        transport: Transport of tool calls: `"socket"`, `"relay"`, `"file"`, or `"auto"` for the fastest that works.
        interrupt: Ends the script once set, as does cancelling the `CancelScope` around the call.
        on_output: Called with each piece of standard output as it arrives, in the calling thread.
        on_tool_call: Called with a `ToolCall` after each tool call, before the script has the answer; in the call's
            thread, and so several times at once. An exception is logged and ignored.
        tool_errors: Effect of a refused tool call in the script: `"raise"` `ToolError`, or `"return"` `{"error": ...}`,
            as a failed tool does. None is the setting, `"raise"` by default.
        argv: The script's arguments, `sys.argv[1:]`.
        session_env: True to pass the session's exported variables as the last command left them, except names of
            secrets not allowed by name; see docs/scripts.md.
        mcp_servers: True to add the tools of the MCP servers in the settings; None is True unless `tools` are given.
            See docs/mcp.md.
        before_script: Approves or denies the script, in place of the environment's hook; see docs/approvals.md.
        before_tool_call: Approves or denies each tool call, in place of the environment's hook.
        record: Local file for a record of the script and of all work of its tools, beside the environment's record; see
            docs/records.md.
        session: Python session for the script, with the variables of earlier scripts. A name, of at most 64 characters,
            is a session that the environment keeps until cleanup, eight at most; True is the session without a name.
            The session sets the environment and the mode, and the defaults of `tools`, `timeout`, `max_tool_calls`,
            `tool_errors` and `mcp_servers`. None follows the setting `kernel_mode`: a new Python by default.

    Returns:
        The result, also for a script that failed, timed out, was interrupted, was denied, or could not be staged.

    Raises:
        EnvironmentStartError: The environment could not be started.
        EnvironmentLostError: The environment was lost while the script ran.
        SettingsError: The settings are invalid.
        UnsupportedError: The environment has no Python, or does not support the transport.
        TerminalError: The tools of an MCP session could not be listed.
        TypeError: `code` is not text, or `env` is no environment.
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
    use_servers = tools is None if mcp_servers is None else mcp_servers
    servers = called_by(code, servers_of(limits.settings.mcp_servers)) if use_servers else {}
    script_call = ScriptCall(
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
    with _observed(script_call.script, tools, record) as operation:
        return _record_result(operation, script_call.result())


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A call of `execute_code` with checked arguments."""

    script: Script
    servers: Mapping[str, McpServer]
    """MCP servers used by the script, by the prefix of their tools' names."""
    before_script: ScriptHook | None
    on_output: TextCallback | None
    run: Callable[[Call[Any], Script, float], Awaitable[Callable[[], ExecutionResult]]]
    """Runs the script on the loop."""

    def result(self) -> ExecutionResult:
        """Run the script. Errors caused by the script become a result."""
        began = time.monotonic()
        with errors_as_results(self.script.env, began) as failed:
            return self._run_if_permitted(began)
        return failed[0]

    def _run_if_permitted(self, called_at: float) -> ExecutionResult:
        script = self.script
        interrupted = script.interruption.is_set
        gate = script.env.gate
        if not gate.permits_script(script.code, script.limits.mode, self.before_script, interrupted) or interrupted():
            seconds = time.monotonic() - called_at
            return ExecutionResult("interrupted", INTERRUPTED_MESSAGE, 0, seconds, None, INTERRUPTED_MESSAGE)
        began = time.monotonic()  # waiting for an approval is not the script's time
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
                if isinstance(error, SettingsError):  # becomes a result, as for a server that does not start
                    raise TerminalError(str(error)) from error
                raise
            return self._run(replace(script, tools=checked_tools({**script.tools, **found})), began)

    def _run(self, script: Script, began: float) -> ExecutionResult:
        shown = LiveScriptOutput(self.on_output, script.env.model_view()) if self.on_output else None
        made = run(lambda call: self.run(call, script, began), shown)
        if shown:
            shown.finish()
        return made()


@contextlib.contextmanager
def errors_as_results(env: BaseEnvironment, began: float) -> Iterator[list[ExecutionResult]]:
    """Turn a TerminalError in the block into a result, appended to the yielded list.

    Raises:
        EnvironmentLostError, EnvironmentStartError, SettingsError, UnsupportedError: These are not the script's fault.
    """
    failed: list[ExecutionResult] = []
    try:
        yield failed
    except TerminalError as error:
        env.model_view().redact_error(error)
        if isinstance(error, EnvironmentLostError | EnvironmentStartError | SettingsError | UnsupportedError):
            raise
        failed.append(not_run(str(error), time.monotonic() - began))


def not_run(why: str, seconds: float = 0.0) -> ExecutionResult:
    """Return the result of a script that did not run, or whose end is unknown."""
    return ExecutionResult("error", why, 0, seconds, None, why)


# Events and records.


def _observed(script: Script, tools: Tools | None, record: str | os.PathLike[str] | None) -> Operation:
    """Return the operation that reports a script to observers.

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
    """Report a script's result to observers, and return the result."""
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
