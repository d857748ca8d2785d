from __future__ import annotations

from targets.command_line import at_terminal, hermes_env, script, target_files, variables

__all__ = ["at_terminal", "hermes_env", "script", "target_files", "variables"]
