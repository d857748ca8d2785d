from __future__ import annotations

from targets.command_line import hermes_env, open_terminal, script, start_hermes_env, target_files, variables

__all__ = ["hermes_env", "open_terminal", "script", "start_hermes_env", "target_files", "variables"]
