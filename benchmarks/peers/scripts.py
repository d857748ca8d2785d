"""The scripts that are run here and by the peers, so that all do the same work."""

PRINTING = "print(1)"
"""The least that a script does."""
LASTING = "x = 1"
"""The least that is run in a Python whose variables last."""
CALLING = 'from hermes_tools import terminal\nprint(terminal("true")["exit_code"])'
"""One tool call, by the names that this package shares with hermes-agent."""
TIMED = """
import json, time
times = []
for _ in range({calls}):
    began = time.perf_counter()
    call()
    times.append(time.perf_counter() - began)
print(json.dumps(times))
"""
"""Calls `call` so often, and prints how long each call took."""
