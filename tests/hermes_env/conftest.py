from __future__ import annotations

from targets.command_line import hermes_env, run_at_terminal, script, target_files, variables

__all__ = ["hermes_env", "run_at_terminal", "script", "target_files", "variables"]
