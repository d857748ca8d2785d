"""What things may cost at most, counted in what does not depend on the machine.

Processes, programs, requests and round trips are exact: one more is a change that somebody has to want. Bytes and
system calls have room above what was counted, as they follow lengths of paths and numbers, the version of bash, and who
is woken first: what they are to show is a loop, a look or a lock that came in by mistake, which is more than that room.

To do better lowers a number here, so that what was reached stays reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

UNITS = {
    "processes": "processes started",
    "programs": "programs started",
    "threads": "threads started here",
    "calls_here": "system calls here to talk or wait",
    "calls_there": "such system calls in the target",
    "streams": "streams opened",
    "round_trips": "round trips",
    "bytes_out": "bytes to the target",
    "bytes_in": "bytes from the target",
    "requests": "requests to the engine",
}
"""What is counted, by the name of the argument of `most` below, in the words of a message."""


class Budget(NamedTuple):
    """What one thing may cost."""

    most: Mapping[str, float]
    """How much of each, by the names in `UNITS`."""
    why: str
    """What it is spent on."""


def most(why: str, **counts: float) -> Budget:
    return Budget(counts, why)


ON_THIS_MACHINE: dict[str, Budget] = {
    "execute, builtin": most(
        "one line to bash, one back, and a look at the leash; bash reads a line byte by byte, and there are 56 in it",
        processes=0, programs=0, threads=0, calls_here=6, calls_there=75,
    ),
    "execute, program": most(
        "the program itself", processes=1, programs=1, threads=0, calls_here=6, calls_there=90,
    ),
    "execute, output": most(
        "100 KB through a pipe that holds 64", processes=0, programs=0, threads=0, calls_here=260, calls_there=320,
    ),
    "execute_oneshot, builtin": most(
        "the subshell that keeps the shell as it was",
        processes=1, programs=0, threads=0, calls_here=6, calls_there=95,
    ),
    "execute_oneshot, program": most(
        "the subshell, and the program", processes=2, programs=1, threads=0, calls_here=6, calls_there=105,
    ),
    "execute_oneshot, text": most(
        "the subshell", processes=1, programs=0, threads=0, calls_here=9, calls_there=110,
    ),
    "start and wait": most(
        "the subshell, and the thread that reads", processes=1, programs=0, threads=1, calls_here=30, calls_there=110,
    ),
    "tool call, socket": most(
        "a line to our socket and one back; a thread that waits for all connections, and one more while that is busy",
        processes=0, programs=0, threads=1, calls_here=6, calls_there=4,
    ),
    "tool call, relay": most(
        "the relay and the stream in between, and two threads of ours, or one more while these are busy",
        processes=0, programs=0, threads=1, calls_here=20, calls_there=10,
    ),
    "tool call, file": most(
        "the subshell that writes the answer; a thread may still see to that when the next request comes",
        processes=1, programs=0, threads=1, calls_here=45, calls_there=160,
    ),
    "script, forked": most(
        "the shell that stands for it, and two forks, each of which forgets what it was forked from",
        processes=3, programs=0, threads=3, calls_here=300, calls_there=400,
    ),
    "script with a tool call, forked": most(
        "the same, and a thread for a call", processes=3, programs=0, threads=4, calls_here=350, calls_there=400,
    ),
    "script, started": most(
        "the shell, env, what it looks for, and a Python, which reads what it finds as it starts",
        processes=5, programs=4, threads=4, calls_here=350,
    ),
    "script with a tool call, started": most(
        "the same, and modules that are read", processes=5, programs=4, threads=5, calls_here=400,
    ),
    "idle": most("nobody looks at anything", processes=0, programs=0, threads=0, calls_here=0, calls_there=0),
}  # fmt: skip
"""On `local`, where both sides are seen. A tool call's system calls in the target are the script's, too."""

OVER_A_STREAM: dict[str, Budget] = {
    "execute, builtin": most(
        "the command goes there, its end comes back; what is ready for the next is sent along with neither",
        processes=0, streams=0, round_trips=1, bytes_out=100, bytes_in=160,
    ),
    "execute, program": most("the same", processes=1, streams=0, round_trips=1, bytes_out=110, bytes_in=160),
    "execute, exports": most(
        "what the session holds is reported without being asked for, at no round trip",
        processes=0, streams=0, round_trips=1, bytes_out=300, bytes_in=6000,
    ),
    "execute_oneshot, builtin": most("the subshell", processes=1, streams=0, round_trips=1, bytes_out=180, bytes_in=80),
    "execute_oneshot, program": most(
        "the subshell, and the program", processes=2, streams=0, round_trips=1, bytes_out=190, bytes_in=80,
    ),
    "tool call, relay": most(
        "the request comes, the answer goes, with a number in front of each",
        processes=0, streams=0, round_trips=1, bytes_out=100, bytes_in=220,
    ),
    "tool call, file": most(
        "the request comes by itself, and one command takes the answer there",
        processes=1, streams=0, round_trips=1, bytes_out=700, bytes_in=400,
    ),
    "script, forked": most(
        "all that it needs goes along with what starts it; mkdir, mkfifo, the subshell and two forks",
        processes=5, streams=0, round_trips=1, bytes_out=19_500, bytes_in=200,
    ),
    "script with a tool call, forked": most(
        "the call, and the relay: a Python, with its threads, that is chosen, started and told to end",
        processes=13, streams=0, round_trips=3, bytes_out=24_000, bytes_in=450,
    ),
    "script, started": most(
        "the relay, which is there before it is known to be needed, and a look for what is left; threads count, too",
        processes=17, streams=0, round_trips=8, bytes_out=35_000, bytes_in=600,
    ),
    "script with a tool call, started": most(
        "the same, and the call", processes=17, streams=0, round_trips=8, bytes_out=35_500, bytes_in=750,
    ),
}  # fmt: skip
"""On every engine over the stream that it gives. What another backend's stream costs below that is its own."""

OF_A_CONTAINER: dict[str, Budget] = {
    "start, with a first command and a first one beside it": most(
        "create and start it, and create and start three shells in it; one of them is to end others", requests=8
    ),
    "end": most("remove it, with all that is in it", requests=1),
}
"""On Docker's engine, each a round trip; a first use also asks for its version, and for the image."""


def excess(thing: str, counted: Mapping[str, float], budget: Budget) -> list[str]:
    """Return what is over the budget, a line for each."""
    return [
        f"{thing}: {counted[name]:g} {UNITS[name]}, at most {limit:g} ({budget.why})"
        for name, limit in budget.most.items()
        if name in counted and counted[name] > limit
    ]
