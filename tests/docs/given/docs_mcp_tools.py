"""What docs/mcp.md takes for granted: that config.yaml is where it is looked for."""

import os

os.environ["HERMES_HOME"] = "."
