"""An account for docs/backends/modal.md: the stand-in for the service."""

import os

from standins.control import StandIn

server = stack.enter_context(StandIn("standins.modal_server"))  # noqa: F821
os.environ |= server.variables
