"""How many threads work at once on one event loop, and for what."""

from __future__ import annotations

from enum import Enum

import anyio
from anyio.lowlevel import RunVar

from environments.arguments import check_count
from hermes_env.aio.home import current_home


class Work(Enum):
    """What a thread does. Each has threads of its own, so that what brings an end never waits for what waits for it."""

    COMMAND = "command"
    """Commands, files, starts."""
    STREAM = "stream"
    """Commands whose output is gone through, while whoever does that runs others."""
    SCRIPT = "script"
    """Scripts, whose tools run commands."""
    WAIT = "wait"
    """Waiting for what a process prints, or reads."""
    CONTROL = "control"
    """What is soon over, or ends something else."""


_most = {Work.COMMAND: 64, Work.STREAM: 64, Work.SCRIPT: 32, Work.WAIT: 64, Work.CONTROL: 64}
_limiters: RunVar[dict[tuple[Work, int], anyio.CapacityLimiter]] = RunVar("hermes_thread_limiters")


def limit_threads(
    *,
    commands: int | None = None,
    streams: int | None = None,
    scripts: int | None = None,
    waits: int | None = None,
) -> None:
    """Say how many threads of each event loop may work at once. What comes beyond that waits for its turn.

    Args:
        commands: For commands, files and starts; 64 at first. As many are kept for what ends or controls something.
        streams: For `stream`; 64 at first.
        scripts: For `aexecute_code`; 32 at first.
        waits: For `expect` and `write` of processes; 64 at first.

    Raises:
        TypeError: A number is not whole.
        ValueError: A number is below 1.
    """
    wanted = {
        Work.COMMAND: commands,
        Work.CONTROL: commands,
        Work.STREAM: streams,
        Work.SCRIPT: scripts,
        Work.WAIT: waits,
    }
    _most.update({work: check_count(f"{work.value}s", most) for work, most in wanted.items() if most is not None})


def limiter_for(work: Work) -> anyio.CapacityLimiter:
    """Return what bounds the threads of the running event loop that do such work.

    A call that another one's callback makes is bounded apart: that one has a thread, and waits for it.
    """
    try:
        limiters = _limiters.get()
    except LookupError:
        limiters = {}
        _limiters.set(limiters)
    home = current_home()
    key = (work, home.depth + 1 if home else 0)
    if key not in limiters:
        limiters[key] = anyio.CapacityLimiter(_most[work])
    limiter = limiters[key]
    if limiter.total_tokens != _most[work]:
        limiter.total_tokens = _most[work]
    return limiter
