"""What things may cost at most, counted in what users feel and what does not depend on the machine.

One more is a change that has to be wanted. To do better lowers a number here.
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
"""What is counted, in the words of a message."""

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
"""On `local`. A script is a fork of a shell that becomes its Python, and a thread that takes its calls. A worker thread
that is started once in a while, and kept, is half of one."""

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
"""On every engine over the stream that it gives. Threads in the target count as processes."""

OF_A_CONTAINER: dict[str, Budget] = {
    "start, with a first command and a first one beside it": {"requests": 8},
    "end": {"requests": 1},
}
"""On Docker's engine: create and start it, create and start three shells; a first use also asks for its version."""


def excess(thing: str, counted: Mapping[str, float], budget: Budget) -> list[str]:
    """Return what is over the budget, a line for each."""
    return [
        f"{thing}: {counted[name]:g} {UNITS[name]}, at most {limit:g}"
        for name, limit in budget.items()
        if name in counted and counted[name] > limit
    ]
