from __future__ import annotations

from targets.mcp_fixtures import leave_mark, server

__all__ = ["leave_mark", "server"]
