from __future__ import annotations

from targets.mcp_server import server_variables, web_server

__all__ = ["server_variables", "web_server"]
