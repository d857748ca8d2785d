"""Ending a script and all that belongs to it, in so much time and no more, whatever the script does about it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from environments.errors import TerminalError
from environments.log import logger

SCRIPT_GRACE = 5.0
"""Seconds a script has between TERM and KILL."""
ENDING_LIMIT = SCRIPT_GRACE + 3.5
"""Seconds for all processes of a script to be ended, its grace included, and for its transport to be closed."""
REMOVAL_LIMIT = 1.5
"""Seconds for its directory to be removed, if the ending left no more."""

_log = logger(__name__)


class Deadline:
    """When a script is to be over and done with."""

    def __init__(self) -> None:
        self._ends = time.monotonic() + ENDING_LIMIT

    @property
    def left(self) -> float:
        """Seconds until then, and 0 behind it."""
        return max(0.0, self._ends - time.monotonic())

    @property
    def left_for_removal(self) -> float:
        """Seconds for what comes last."""
        return self.left + REMOVAL_LIMIT


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
