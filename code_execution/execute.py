"""Running a script that calls tools: stage it, run it, limit it, collect what it printed, clean up."""

from __future__ import annotations

import secrets
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

from code_execution.child_environment import script_command
from code_execution.ending import SCRIPT_GRACE, Deadline, side_by_side
from code_execution.interpreter import find_python, forget_python
from code_execution.passthrough import allowed_variables
from code_execution.result import INTERRUPTED_MESSAGE, ExecutionResult, Status, assembled_output, timeout_message
from code_execution.script_output import ScriptOutput
from code_execution.settings import CodeExecutionSettings, Mode, load_code_execution_settings
from code_execution.staging import SCRIPT, STUB, stage, staging_directory
from environments.base import BaseEnvironment, Process
from environments.call import OutputCallback
from environments.errors import EnvironmentLostError, EnvironmentStartError, TerminalError, UnsupportedError
from environments.manager import get_environment
from environments.result import INTERRUPT_EXIT_CODE, KILLED_EXIT_CODE, TIMEOUT_EXIT_CODE
from hermes_tools import script_tools
from rpc import (
    BeforeCall,
    Dispatcher,
    FileQueueTransport,
    RelayTransport,
    Transport,
    UnixSocketTransport,
    generate_stub,
)

if TYPE_CHECKING:
    from environments.approvals import ScriptHook, ToolCallHook

TransportName = Literal["auto", "socket", "relay", "file"]
Tools = Mapping[str, Callable[..., object]]

PREPARING_LIMIT = 60.0
"""Seconds for each command that comes before the script."""
INTERRUPT_POLL = 0.05
"""Seconds between looks at the caller's event, which can't be waited for together with the script."""
NOT_CALLABLE = ("execute_code", "delegate_task", "delegate")
"""Tools that start another agent or script; a script must not get hold of them, whoever passes them."""
COMMAND_NOT_FOUND = 127


@dataclass(frozen=True, slots=True)
class _Limits:
    settings: CodeExecutionSettings
    timeout: float
    max_tool_calls: int
    mode: Mode
    transport: TransportName


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
    on_output: OutputCallback | None = None,
    argv: Sequence[str] = (),
    before_script: ScriptHook | None = None,
    before_tool_call: ToolCallHook | None = None,
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
        interrupt: Ends the script when it is set.
        on_output: Called with each piece of its standard output as it arrives, in another thread.
        argv: The script's arguments, `sys.argv[1:]`.
        before_script: Decides whether the script may run, in place of the environment's; see docs/approvals.md.
        before_tool_call: Decides on each of its tool calls, in place of the environment's.

    Returns:
        The result, also for a script that failed, timed out, was interrupted, was denied, or could not be staged.

    Raises:
        EnvironmentStartError: The environment could not be started.
        EnvironmentLostError: The environment went away while the script ran.
        SettingsError: The settings are not in order.
        UnsupportedError: The environment has no Python, or can't do the transport.
        TypeError: The code is not text.
        ValueError: An argument has a value that is not allowed.
    """
    if sys.platform == "win32":
        return _not_run("execute_code is not available on Windows: it needs a POSIX shell and Unix sockets.")
    limits = _checked(code, timeout, max_tool_calls, mode, transport)
    env = get_environment() if env is None else env
    handlers = script_tools(env) if tools is None else dict(tools)
    if forbidden := sorted(set(handlers) & set(NOT_CALLABLE)):
        raise ValueError(f"{', '.join(forbidden)} can't be called from a script; leave it out of tools")
    began = time.monotonic()
    view = env.model_view()
    output = ScriptOutput(limits.settings, on_output, view)
    asks = before_tool_call or env.before_tool_call or env.rules
    before_call = partial(env.check_tool_call, hook=before_tool_call) if asks else None
    run = _Run(env, handlers, limits, interrupt, output, before_call)
    try:
        if not env.may_run_script(code, limits.mode, before_script, interrupt.is_set if interrupt else None):
            return _interrupted_before(time.monotonic() - began)
        began = time.monotonic()  # whoever was asked has taken time that is not the script's
        return run.execute(code, argv, began)
    except TerminalError as error:
        view.hide_in(error)
        if isinstance(error, EnvironmentLostError | EnvironmentStartError | UnsupportedError):
            raise
        return _not_run(str(error), time.monotonic() - began)


def _checked(
    code: str, timeout: float | None, max_tool_calls: int | None, mode: Mode | None, transport: TransportName
) -> _Limits:
    settings = load_code_execution_settings()
    limits = _Limits(
        settings,
        settings.timeout if timeout is None else timeout,
        settings.max_tool_calls if max_tool_calls is None else max_tool_calls,
        settings.mode if mode is None else mode,
        transport,
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
    ):
        if value not in allowed:
            raise ValueError(f"{name} is {value!r}; allowed: {', '.join(allowed)}")
    return limits


def _left(deadline: float) -> float:
    """Return how many seconds there are for one more command of ours."""
    return min(max(1.0, deadline - time.monotonic()), PREPARING_LIMIT)


def _not_run(why: str, seconds: float = 0.0) -> ExecutionResult:
    return ExecutionResult("error", why, 0, seconds, None, why)


def _interrupted_before(seconds: float) -> ExecutionResult:
    return ExecutionResult("interrupted", INTERRUPTED_MESSAGE, 0, seconds, None, INTERRUPTED_MESSAGE)


class _Run:
    """One script's run."""

    def __init__(
        self,
        env: BaseEnvironment,
        handlers: Tools,
        limits: _Limits,
        interrupt: threading.Event | None,
        output: ScriptOutput,
        before_call: BeforeCall | None,
    ) -> None:
        self._env = env
        self._handlers = handlers
        self._limits = limits
        self._interrupt = interrupt
        self._output = output
        self._token = secrets.token_urlsafe(24)
        self._dispatcher = Dispatcher(
            handlers, token=self._token, max_calls=limits.max_tool_calls, before_call=before_call
        )

    def execute(self, code: str, argv: Sequence[str], began: float) -> ExecutionResult:
        deadline = began + self._limits.timeout
        python = find_python(self._env, self._limits.mode, _left(deadline))
        with staging_directory(self._env, _left(deadline)) as staging:
            transport = self._chosen_transport(staging.path, python)
            process = None
            try:
                transport.start()
                stub = generate_stub(self._handlers, transport.client_source, self._token)
                stage(self._env, staging.path, {STUB: stub, SCRIPT: code}, _left(deadline))
                process = self._start(python, staging.path, argv)
                ended_by_us = self._wait(process, deadline)
            finally:
                self._output.freeze()
                staging.removal_limit = self._end(process, transport)
            self._output.finish()
            if failure := getattr(transport, "failure", None):
                raise EnvironmentLostError(f"the script's tool calls could no longer be collected: {failure}")
            return self._result(process, ended_by_us, began)

    def _end(self, process: Process | None, transport: Transport) -> float:
        """End the script, its calls and its transport, and return how many seconds are left for its directory."""
        deadline = Deadline()
        self._dispatcher.close()

        def end_processes() -> None:
            if process:
                process.kill()  # also what a script that ended by itself left in the background
            self._dispatcher.scope.end_remains()

        side_by_side((end_processes, transport.close), deadline)
        return deadline.left_for_removal

    def _chosen_transport(self, directory: str, python: str) -> Transport:
        capabilities, wanted = self._env.capabilities, self._limits.transport
        if wanted == "auto":
            wanted = "socket" if capabilities.same_machine else "relay" if capabilities.duplex else "file"
        if wanted == "socket" and capabilities.same_machine:
            return UnixSocketTransport(self._dispatcher)
        if wanted == "relay" and capabilities.duplex:
            return RelayTransport(self._dispatcher, self._env, directory, python)
        if wanted == "file":
            return FileQueueTransport(self._dispatcher, self._env, directory)
        raise UnsupportedError(
            f"backend {self._env.settings.env!r} cannot do transport {wanted!r}; use 'auto', or 'file', which works "
            "on every backend"
        )

    def _start(self, python: str, directory: str, argv: Sequence[str]) -> Process:
        arguments = [python, "-u", f"{directory}/{SCRIPT}", *argv]
        command = script_command(arguments, directory, allowed_variables(self._env))
        cwd = directory if self._limits.mode == "strict" else None
        return self._env.start_own(command, cwd=cwd, stdin="none", sink=self._output, grace=SCRIPT_GRACE)

    def _wait(self, process: Process, deadline: float) -> Status | None:
        """Wait for the script's end, its deadline or the interrupt, and say which of the latter two it was."""
        while process.running:
            left = deadline - time.monotonic()
            if left <= 0:
                return "timeout"
            if self._interrupt and self._interrupt.is_set():
                return "interrupted"
            pause = INTERRUPT_POLL if self._interrupt else left
            process.wait(min(left, pause, threading.TIMEOUT_MAX))
        return None

    def _result(self, process: Process, ended_by_us: Status | None, began: float) -> ExecutionResult:
        message: str | None
        if ended_by_us == "timeout":
            code, message = TIMEOUT_EXIT_CODE, timeout_message(self._limits.timeout)
        elif ended_by_us == "interrupted":
            code, message = INTERRUPT_EXIT_CODE, INTERRUPTED_MESSAGE
        else:
            code = process.wait() or 0
            message = self._env.why_killed() if code == KILLED_EXIT_CODE else None
        status: Status = ended_by_us or ("success" if code == 0 else "error")
        if code == COMMAND_NOT_FOUND:
            forget_python(self._env)
        output, stderr = self._output.stdout(), ""
        if status != "success":
            stderr = self._output.stderr()
            output = assembled_output(output, stderr, message)
            message = message or f"Script exited with code {code}."
        seconds = time.monotonic() - began
        return ExecutionResult(status, output, self._dispatcher.calls_made, seconds, code, message, stderr)
