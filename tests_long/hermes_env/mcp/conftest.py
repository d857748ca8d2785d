from __future__ import annotations

from targets.mcp_server import over_stdio, server_variables, web_server

__all__ = ["over_stdio", "server_variables", "web_server"]
