from __future__ import annotations

from targets.command_line import at_terminal, hermes_env, script, things, variables

__all__ = ["at_terminal", "hermes_env", "script", "things", "variables"]
