"""Fork bombs: programs at the process limit."""

from __future__ import annotations

SHELL_BOMB = "bomb() { bomb | bomb & }; bomb; sleep 1000"
UNMARKED = """
import os
while True:
    try:
        if os.fork() == 0:
            os.setsid()
            os.closerange(0, 300)
            if os.fork():
                os._exit(0)
    except OSError:
        pass
"""
UNKNOWN = f"import os, sys; os.execve(sys.executable, [sys.executable, '-c', {UNMARKED!r}], {{}})"
"""A fork bomb whose processes have their own sessions, no open file of the script, and no marker variable."""
