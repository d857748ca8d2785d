from __future__ import annotations

from targets.command_line import hermes_env, open_terminal, start_hermes_env, variables

__all__ = ["hermes_env", "open_terminal", "start_hermes_env", "variables"]
