"""An account for docs/backends/daytona.md: the stand-in for the service."""

import os

from standins.control import StandIn

server = stack.enter_context(StandIn("standins.daytona_server"))  # noqa: F821
os.environ |= server.variables
