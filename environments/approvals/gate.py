"""Where an environment's hooks and rules are asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from environments.errors import DeniedError
from environments.observation.events import current_operation
from environments.options import Command
from environments.settings import EnvironmentSettings

if TYPE_CHECKING:
    from environments.approvals.decision import Answer, Approver, CommandHook, Request, ScriptHook, ToolCallHook, Way
    from environments.approvals.rules import Rules

    _Request = TypeVar("_Request", bound=Request)

ToolCallCheck = Callable[[str, "Mapping[str, object]"], None]
"""Raises DeniedError if a tool, named, may not be called with arguments by the names of its parameters."""


class Gate:
    """The hooks and rules of an environment, which decide on commands, scripts and tool calls.

    A hook may be called from several threads at once. No lock is held while it is. What it runs in the environment
    itself it has to run by `env.internal`, or it is asked about that too.

    Args:
        settings: Those of the environment.
    """

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._settings = settings
        self.before_command: CommandHook | None = None
        """Decides on each `execute`, `execute_oneshot` and `start`, before it has any effect."""
        self.before_script: ScriptHook | None = None
        """Decides on each script of `execute_code`."""
        self.before_tool_call: ToolCallHook | None = None
        """Decides on each tool call of a script that begins while it is set."""
        self.approve: Approver | None = None
        """Answers where a hook or a rule asks; without it, that is a denial. It is called in a thread of its own."""
        self.rules: Rules | None = None
        """The rules of config.yaml, which hold beside the hooks."""

    @property
    def asks_about_commands(self) -> bool:
        """True if a hook or a rule decides on commands. It may take its time."""
        return self.before_command is not None or self.rules is not None

    def permits(self, command: Command, cwd: Callable[[], str | None], way: Way) -> bool:
        """Ask about a command.

        Args:
            command: The command.
            cwd: Returns the directory of its session; None if that is not known.
            way: How it is to run.

        Returns:
            True if it may run; False if it was cancelled meanwhile.

        Raises:
            DeniedError: It may not.
        """
        if command.is_cancelled:
            return False
        if not self.asks_about_commands:
            return True
        from environments.approvals.decision import CommandRequest

        backend, task_id = self._settings.env, self._settings.task_id
        request = CommandRequest(command.judged, command.cwd or cwd(), backend, task_id, way, command.user)
        rule = self.rules.command if self.rules else None
        return self._allowed(request, (rule, self.before_command), lambda: command.is_cancelled)

    def permits_script(
        self, code: str, mode: str, hook: ScriptHook | None = None, cancelled: Callable[[], bool] | None = None
    ) -> bool:
        """Ask about a script.

        Args:
            code: Its source.
            mode: `project` or `strict`.
            hook: Is asked in place of `before_script`.
            cancelled: Says that nobody waits for it any more.

        Returns:
            Whether it may run; False if it was cancelled meanwhile.

        Raises:
            DeniedError: It may not.
        """
        hook = hook or self.before_script
        if hook is None and self.rules is None:
            return True
        from environments.approvals.decision import ScriptRequest

        request = ScriptRequest(code, mode, self._settings.env, self._settings.task_id)
        return self._allowed(request, (self.rules.script if self.rules else None, hook), cancelled)

    def tool_call_check(self, hook: ToolCallHook | None = None) -> ToolCallCheck | None:
        """Return what asks about each tool call of a script that begins now; None where nobody is to be asked.

        Args:
            hook: Is asked in place of `before_tool_call`.
        """
        asks = hook or self.before_tool_call or self.rules
        return partial(self._check_tool_call, hook) if asks else None

    def _check_tool_call(self, hook: ToolCallHook | None, tool: str, arguments: Mapping[str, object]) -> None:
        """Raise DeniedError if a tool call may not be made, or nobody waits for it any more."""
        hook = hook or self.before_tool_call
        from environments.approvals.decision import ToolCallRequest

        request = ToolCallRequest(tool, dict(arguments), self._settings.env, self._settings.task_id)
        if not self._allowed(request, (self.rules.tool_call if self.rules else None, hook)):
            raise DeniedError("it was cancelled while approval was asked for")

    def _allowed(
        self,
        request: _Request,
        hooks: Iterable[Callable[[_Request], Answer] | None],
        cancelled: Callable[[], bool] | None = None,
    ) -> bool:
        from environments.approvals.asking import AskingCancelledError, denial

        patience, began = self.rules.timeout if self.rules else None, time.monotonic()
        try:
            reason = denial(request, [hook for hook in hooks if hook], self.approve, patience, cancelled)
        except AskingCancelledError:
            return False
        finally:
            current_operation().approved_after(time.monotonic() - began)
        if reason is not None:
            raise DeniedError(reason)
        return True
