"""What docs/backends/modal.md takes for granted: an account, here with the stand-in for the service."""

import os

from standins.control import StandIn

server = stack.enter_context(StandIn("standins.modal_server"))  # noqa: F821
os.environ |= server.variables
