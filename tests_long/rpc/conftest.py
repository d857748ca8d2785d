from __future__ import annotations

from targets.script_line import connection, local_env, open_line

__all__ = ["connection", "local_env", "open_line"]
