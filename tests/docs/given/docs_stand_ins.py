"""What docs/stand-ins.md takes for granted: the stand-in for Modal runs, and its variables are set."""

import os

from standins.control import StandIn

server = stack.enter_context(StandIn("standins.modal_server"))  # noqa: F821
os.environ |= server.variables
