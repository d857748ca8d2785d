"""The largest allowed cost of each operation, in units that users feel and that do not depend on the machine.

Raise a number only on purpose. Lower the number after an improvement.
"""

from __future__ import annotations

from collections.abc import Mapping

UNITS = {
    "started": "processes and threads started",
    "processes": "processes started",
    "streams": "streams opened",
    "round_trips": "round trips",
    "requests": "requests to the engine",
}
"""The units, as worded in a message."""

Budget = Mapping[str, float]

ON_THIS_MACHINE: dict[str, Budget] = {
    "execute, builtin": {"started": 0},
    "execute, program": {"started": 1},
    "execute, output": {"started": 0},
    "execute_oneshot, builtin": {"started": 1},
    "execute_oneshot, program": {"started": 2},
    "start and wait": {"started": 1},
    "tool call, socket": {"started": 0.5},
    "tool call, relay": {"started": 0.5},
    "tool call, file": {"started": 1.5},
    "script": {"started": 2},
    "script with a tool call": {"started": 3},
    "idle": {"started": 0},
}
"""On `local`. A script is a fork of a shell that becomes the Python, and a thread for the calls. A worker thread, which
is started now and then and kept, counts as a half."""

OVER_A_STREAM: dict[str, Budget] = {
    "execute, builtin": {"processes": 0, "streams": 0, "round_trips": 1},
    "execute, program": {"processes": 1, "streams": 0, "round_trips": 1},
    "execute, exports": {"processes": 0, "streams": 0, "round_trips": 1},
    "execute_oneshot, builtin": {"processes": 1, "streams": 0, "round_trips": 1},
    "execute_oneshot, program": {"processes": 2, "streams": 0, "round_trips": 1},
    "tool call, relay": {"processes": 0, "streams": 0, "round_trips": 1},
    "tool call, file": {"processes": 1, "streams": 0, "round_trips": 1},
    "script": {"processes": 4, "streams": 0, "round_trips": 1},
    "script with a tool call": {"processes": 4, "streams": 0, "round_trips": 2},
}
"""On every engine over the engine's stream. Threads in the target count as processes."""

OF_A_CONTAINER: dict[str, Budget] = {
    "start, with a first command and a first one beside it": {"requests": 8},
    "end": {"requests": 1},
}
"""On Docker's engine: create and start the container and three shells. A first use also requests the version."""


def excess(operation: str, counted: Mapping[str, float], budget: Budget) -> list[str]:
    """Return a line for each count above the budget."""
    return [
        f"{operation}: {counted[name]:g} {UNITS[name]}, at most {limit:g}"
        for name, limit in budget.items()
        if name in counted and counted[name] > limit
    ]
