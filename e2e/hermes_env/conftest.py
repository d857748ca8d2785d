from __future__ import annotations

from targets.command_line import hermes_env, opens, start_hermes_env, variables

__all__ = ["hermes_env", "opens", "start_hermes_env", "variables"]
