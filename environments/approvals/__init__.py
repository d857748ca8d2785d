"""Approvals: hooks and rules for commands, scripts and tool calls, and a policy against destructive commands.

See docs/approvals.md. Names are imported on first use, as most programs have no hooks.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from environments.approvals.hooks import (
        Allow,
        Approver,
        Ask,
        CommandHook,
        CommandRequest,
        Deny,
        Request,
        ScriptHook,
        ScriptRequest,
        ToolCallHook,
        ToolCallRequest,
    )
    from environments.approvals.policy import destructive, destructive_commands
else:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name in ("destructive", "destructive_commands"):
            from environments.approvals import policy

            return getattr(policy, name)
        from environments.approvals import hooks

        return getattr(hooks, name)


__all__ = [
    "Allow",
    "Approver",
    "Ask",
    "CommandHook",
    "CommandRequest",
    "Deny",
    "Request",
    "ScriptHook",
    "ScriptRequest",
    "ToolCallHook",
    "ToolCallRequest",
    "destructive",
    "destructive_commands",
]
