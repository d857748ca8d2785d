"""The scripts, the same for this package and for the peers."""

PRINTING = "print(1)"
"""The smallest script."""
LASTING = "x = 1"
"""The smallest script for a persistent Python."""
CALLING = 'from hermes_tools import terminal\nprint(terminal("true")["exit_code"])'
"""A tool call, with the same names in this package and in hermes-agent."""
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
