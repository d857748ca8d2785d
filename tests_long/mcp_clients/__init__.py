"""Our MCP server, used by the official clients and the official conformance suite."""
