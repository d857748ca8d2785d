"""Ending a script and all that belongs to it, in so much time and no more, whatever the script does about it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from environments.errors import TerminalError
from environments.log import logger
from environments.process import Process
from rpc import Dispatcher, RelayTransport, Transport

SCRIPT_GRACE = 5.0
"""Seconds a script has between TERM and KILL."""
ENDING_LIMIT = SCRIPT_GRACE + 3.5
"""Seconds for all processes of a script to be ended, its grace included, and for its transport to be closed."""
REMOVAL_LIMIT = 1.5
"""Seconds for its directory to be removed, if the ending left no more."""

_log = logger(__name__)


class Deadline:
    """When a script is to be over and done with.

    Args:
        limit: Seconds until then.
    """

    def __init__(self, limit: float = ENDING_LIMIT) -> None:
        self._ends = time.monotonic() + limit

    @property
    def left(self) -> float:
        """Seconds until then, and 0 behind it."""
        return max(0.0, self._ends - time.monotonic())

    @property
    def left_for_removal(self) -> float:
        """Seconds for what comes last."""
        return self.left + REMOVAL_LIMIT


def end_script(
    process: Process | None, transport: Transport, dispatcher: Dispatcher, *, knows_that_none_is_left: bool
) -> float:
    """End a script, its calls and its transport.

    Args:
        process: The script's, if it was started.
        transport: What brings its calls.
        dispatcher: What answers them.
        knows_that_none_is_left: Whether the target has said that no process of the script is left.

    Returns:
        How many seconds are left for its directory.
    """
    deadline = Deadline()
    dispatcher.close()
    is_over = process is not None and not process.running and knows_that_none_is_left
    if is_over and isinstance(transport, RelayTransport):
        transport.remove_directory()

    def end_processes() -> None:
        if process and not is_over:
            process.kill()  # also what a script that ended by itself left in the background
        dispatcher.scope.end_remains()

    # Each is a thread, and mostly there is nothing to do but for one.
    steps: list[Callable[[], object]] = [transport.close]
    if not is_over or dispatcher.scope.has_remains:
        steps.append(end_processes)
    if dispatcher.is_awaiting:
        steps.append(dispatcher.join)
    side_by_side(steps, deadline)
    return deadline.left_for_removal


def side_by_side(steps: Sequence[Callable[[], object]], deadline: Deadline) -> None:
    """Take steps at the same time, each in a thread, and wait for them until the deadline.

    A target that a script has stopped may never answer. Such a step goes on by itself, and nobody waits for it.

    Raises:
        Exception: What a step raised, but for TerminalError, which is logged.
    """
    errors: list[BaseException] = []
    threads = [threading.Thread(target=_taken, args=(step, errors), name="hermes-end-script") for step in steps]
    for thread in threads:
        thread.daemon = True
        thread.start()
    for thread in threads:
        thread.join(deadline.left)
    if any(thread.is_alive() for thread in threads):
        _log.warning("a script could not be ended in time; what is left of it is still being looked for")
    for error in errors:
        raise error


def _taken(step: Callable[[], object], errors: list[BaseException]) -> None:
    try:
        step()
    except TerminalError as error:
        _log.warning("what a script left could not be ended: %s", type(error).__name__)
    except BaseException as error:
        errors.append(error)
