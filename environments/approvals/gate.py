"""The gate of an environment: calls hooks and rules before commands, scripts and tool calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from environments.errors import DeniedError
from environments.observation.events import current_operation
from environments.options import CheckedCommand
from environments.settings import EnvironmentSettings

if TYPE_CHECKING:
    from environments.approvals.hooks import Answer, Approver, CommandHook, Request, ScriptHook, ToolCallHook, Way
    from environments.approvals.rules import Rules

    _Request = TypeVar("_Request", bound=Request)

ToolCallCheck = Callable[[str, "Mapping[str, object]"], None]
"""Takes the name of a tool and its arguments by parameter; raises DeniedError if the call is denied."""


class Gate:
    """The hooks and rules of an environment.

    Several threads may call a hook at once, and no lock is held meanwhile. A hook runs its own commands with
    `env.internal`; `env.execute` would call the hook again.

    Args:
        settings: The settings of the environment.
    """

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._settings = settings
        self.before_command: CommandHook | None = None
        """Decides on each `execute`, `execute_oneshot` and `start`, before it has any effect."""
        self.before_script: ScriptHook | None = None
        """Decides on each script of `execute_code`."""
        self.before_tool_call: ToolCallHook | None = None
        """Decides on each tool call of the scripts that start while it is set."""
        self.approve: Approver | None = None
        """Answers questions of hooks and rules, in a thread of its own; without `approve`, a question is a denial."""
        self.rules: Rules | None = None
        """The rules of config.yaml, applied beside the hooks."""

    @property
    def has_command_checks(self) -> bool:
        """True if a hook or a rule decides on commands. A decision may take any time."""
        return self.before_command is not None or self.rules is not None

    def permits(self, command: CheckedCommand, cwd: Callable[[], str | None], way: Way) -> bool:
        """Ask the hooks and rules about a command.

        Args:
            command: The command.
            cwd: Returns the working directory of the session; None if not known.
            way: `session`, `oneshot` or `background`.

        Returns:
            True to run the command; False if the command was cancelled meanwhile.

        Raises:
            DeniedError: A hook, a rule or `approve` denied the command.
        """
        if command.is_cancelled:
            return False
        if not self.has_command_checks:
            return True
        from environments.approvals.hooks import CommandRequest

        backend, task_id = self._settings.env, self._settings.task_id
        request = CommandRequest(command.judged, command.cwd or cwd(), backend, task_id, way, command.user)
        rule = self.rules.command if self.rules else None
        return self._allowed(request, (rule, self.before_command), lambda: command.is_cancelled)

    def permits_script(
        self, code: str, mode: str, hook: ScriptHook | None = None, cancelled: Callable[[], bool] | None = None
    ) -> bool:
        """Ask the hooks and rules about a script.

        Args:
            code: The source of the script.
            mode: `project` or `strict`.
            hook: Replaces `before_script`.
            cancelled: Returns True once the call is cancelled.

        Returns:
            True to run the script; False if the call was cancelled meanwhile.

        Raises:
            DeniedError: A hook, a rule or `approve` denied the script.
        """
        hook = hook or self.before_script
        if hook is None and self.rules is None:
            return True
        from environments.approvals.hooks import ScriptRequest

        request = ScriptRequest(code, mode, self._settings.env, self._settings.task_id)
        return self._allowed(request, (self.rules.script if self.rules else None, hook), cancelled)

    def tool_call_check(self, hook: ToolCallHook | None = None) -> ToolCallCheck | None:
        """Return the check for a starting script's tool calls; None without hooks and rules.

        Args:
            hook: Replaces `before_tool_call`.
        """
        asks = hook or self.before_tool_call or self.rules
        return partial(self._check_tool_call, hook) if asks else None

    def _check_tool_call(self, hook: ToolCallHook | None, tool: str, arguments: Mapping[str, object]) -> None:
        """Raise DeniedError if a tool call is denied or has been cancelled."""
        hook = hook or self.before_tool_call
        from environments.approvals.hooks import ToolCallRequest

        request = ToolCallRequest(tool, dict(arguments), self._settings.env, self._settings.task_id)
        if not self._allowed(request, (self.rules.tool_call if self.rules else None, hook)):
            raise DeniedError("it was cancelled while approval was asked for")

    def _allowed(
        self,
        request: _Request,
        hooks: Iterable[Callable[[_Request], Answer] | None],
        cancelled: Callable[[], bool] | None = None,
    ) -> bool:
        from environments.approvals.hooks import ApprovalCancelledError, denial

        patience, began = self.rules.timeout if self.rules else None, time.monotonic()
        try:
            reason = denial(request, [hook for hook in hooks if hook], self.approve, patience, cancelled)
        except ApprovalCancelledError:
            return False
        finally:
            current_operation().add_approval(time.monotonic() - began)
        if reason is not None:
            raise DeniedError(reason)
        return True
