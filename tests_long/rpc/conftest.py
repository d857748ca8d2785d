from __future__ import annotations

from targets.tool_channel import connection, local_env, open_channel

__all__ = ["connection", "local_env", "open_channel"]
