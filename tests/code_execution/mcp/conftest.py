from __future__ import annotations

from targets.mcp_fixtures import leave_mark, program, serve, server, silent, stdio

__all__ = ["leave_mark", "program", "serve", "server", "silent", "stdio"]
