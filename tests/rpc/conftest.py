from __future__ import annotations

from targets.script_line import connection, load, local_env, open_line

__all__ = ["connection", "load", "local_env", "open_line"]
