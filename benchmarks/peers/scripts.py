"""The scripts of this package and of the peers, so that all do the same work."""

PRINTING = "print(1)"
"""The smallest script."""
LASTING = "x = 1"
"""The smallest script for a lasting Python."""
CALLING = 'from hermes_tools import terminal\nprint(terminal("true")["exit_code"])'
"""One tool call, by names that this package shares with hermes-agent."""
TIMED = """
import json, time
times = []
for _ in range({calls}):
    began = time.perf_counter()
    call()
    times.append(time.perf_counter() - began)
print(json.dumps(times))
"""
"""Calls `call` several times, and prints the seconds of each call."""
