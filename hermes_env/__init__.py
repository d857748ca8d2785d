"""The command line, batches, the MCP server, plugs for agent frameworks, and the asynchronous interface."""
