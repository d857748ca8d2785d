"""One call of `execute_code`: who has a say before the script, with which tools it runs, and what errors become."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from code_execution.interruption import Interruption
from code_execution.mcp.for_script import running_servers
from code_execution.mcp.server_settings import McpServer
from code_execution.preparation import OutOfTimeError, Preparation
from code_execution.result import INTERRUPTED_MESSAGE, ExecutionResult
from code_execution.script_output import ScriptOutput
from code_execution.script_run import Limits, ScriptRun, Tools
from environments.base import BaseEnvironment
from environments.errors import EnvironmentLostError, EnvironmentStartError, TerminalError, UnsupportedError
from environments.output import TextCallback
from rpc import ToolCallCallback, ToolCallLog

if TYPE_CHECKING:
    from environments.approvals import ScriptHook, ToolCallHook

NOT_CALLABLE = ("execute_code", "delegate_task", "delegate")
"""Tools that start another agent or script; a script must not get hold of them, whoever passes them."""


@dataclass(frozen=True, slots=True)
class Callbacks:
    """What of the caller's is called for a script; each may be None."""

    before_script: ScriptHook | None
    before_tool_call: ToolCallHook | None
    on_output: TextCallback | None
    on_tool_call: ToolCallCallback | None


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A script that was asked for, with arguments that are in order."""

    env: BaseEnvironment
    code: str
    argv: Sequence[str]
    limits: Limits
    tools: Tools
    servers: Mapping[str, McpServer]
    """The MCP servers that it calls, by what their tools' names begin with."""
    interruption: Interruption
    callbacks: Callbacks

    def result(self) -> ExecutionResult:
        """Run the script, and return for a result what is raised, but for what is not the script's doing."""
        began = time.monotonic()
        try:
            return self._if_allowed(began)
        except TerminalError as error:
            self.env.model_view().hide_in(error)
            if isinstance(error, EnvironmentLostError | EnvironmentStartError | UnsupportedError):
                raise
            return not_run(str(error), time.monotonic() - began)

    def _if_allowed(self, asked: float) -> ExecutionResult:
        interrupted = self.interruption.has_come
        hook = self.callbacks.before_script
        if not self.env.gate.permits_script(self.code, self.limits.mode, hook, interrupted) or interrupted():
            seconds = time.monotonic() - asked
            return ExecutionResult("interrupted", INTERRUPTED_MESSAGE, 0, seconds, None, INTERRUPTED_MESSAGE)
        return self._with_all_tools(time.monotonic())  # whoever was asked has taken time that is not the script's

    def _with_all_tools(self, began: float) -> ExecutionResult:
        """Run it with its tools, and with those of MCP servers, which are there for so long."""
        before = Preparation(self.limits.timeout, began, self.interruption)
        with contextlib.ExitStack() as stack:
            try:
                found = stack.enter_context(running_servers(self.servers, before, self.tools.keys()))
            except (OutOfTimeError, TerminalError) as error:
                if result := before.result_of(error):
                    return result
                raise
            return self._to_its_end(checked_tools({**self.tools, **found}), began)

    def _to_its_end(self, tools: Tools, began: float) -> ExecutionResult:
        view, check = self.env.model_view(), self.env.gate.tool_call_check(self.callbacks.before_tool_call)
        asks = True
        while True:
            output = ScriptOutput(self.limits.settings, self.callbacks.on_output, view)
            calls = ToolCallLog(self.callbacks.on_tool_call, view.output)
            run = ScriptRun(self.env, tools, self.limits, self.interruption, output, check, calls, asks=asks)
            if result := run.execute(self.code, self.argv, began):
                return result
            # A Python that does not work was chosen, which is passed over from now on, or none could be forked.
            asks = False


def checked_tools(tools: Tools) -> Tools:
    """Return a copy of the tools of a script.

    Raises:
        ValueError: One of them is not for a script.
    """
    if forbidden := sorted(set(tools) & set(NOT_CALLABLE)):
        raise ValueError(f"{', '.join(forbidden)} can't be called from a script; leave it out of tools")
    return dict(tools)


def not_run(why: str, seconds: float = 0.0) -> ExecutionResult:
    """Return the result of a script that was not run, or whose end is not known."""
    return ExecutionResult("error", why, 0, seconds, None, why)
