from __future__ import annotations

from targets.script_line import local_env, open_line

__all__ = ["local_env", "open_line"]
