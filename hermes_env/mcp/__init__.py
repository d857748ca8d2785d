"""The server of the Model Context Protocol (MCP): our tools, with an environment for each client."""
