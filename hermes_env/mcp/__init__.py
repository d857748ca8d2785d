"""The MCP server: our tools for whoever speaks the Model Context Protocol, on an environment of their own."""
