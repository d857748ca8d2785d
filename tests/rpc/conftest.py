from __future__ import annotations

from targets.tool_channel import connection, load, local_env, open_channel

__all__ = ["connection", "load", "local_env", "open_channel"]
