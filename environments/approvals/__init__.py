"""A say before a command, a script or a tool call: hooks, rules, and a ready policy for destructive commands.

docs/approvals.md explains it. What reads commands is imported with its first use, as most programs never need it.
"""

from typing import TYPE_CHECKING

from environments.approvals.decision import (
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

if TYPE_CHECKING:
    from environments.approvals.policy import destructive, destructive_commands
else:

    def __getattr__(name: str) -> object:
        if name not in ("destructive", "destructive_commands"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from environments.approvals import policy

        return getattr(policy, name)


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
