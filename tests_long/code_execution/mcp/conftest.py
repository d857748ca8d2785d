from __future__ import annotations

from targets.mcp_fixtures import http, leave_mark, program, serve, server, silent, stdio, token, url

__all__ = ["http", "leave_mark", "program", "serve", "server", "silent", "stdio", "token", "url"]
