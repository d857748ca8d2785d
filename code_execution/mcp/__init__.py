"""Tools of MCP servers in a script: of a session that is open already, or of the servers that the settings name."""
