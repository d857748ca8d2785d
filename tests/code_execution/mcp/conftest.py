from __future__ import annotations

from targets.mcp_fixtures import leave_mark, serve, server, silent

__all__ = ["leave_mark", "serve", "server", "silent"]
