from __future__ import annotations

from targets.script_line import load, local_env, open_line

__all__ = ["load", "local_env", "open_line"]
