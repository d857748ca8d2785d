"""What a run that was killed has left in targets, which is removed before the next one goes on."""

from __future__ import annotations

from collections.abc import Iterable

from environments.errors import TerminalError
from environments.log import logger
from environments.registry import backend_class

_log = logger(__name__)


def remove_leftovers(backends: Iterable[str]) -> int:
    """Remove what processes of this machine that were killed have left, and end what still runs of them.

    What cannot be looked at or removed is told by a warning in the log.

    Args:
        backends: The names of the backends to look at.

    Returns:
        How many things were removed.
    """
    removed = 0
    for backend in backends:
        try:
            for orphan in backend_class(backend).find_orphans():
                try:
                    orphan.remove()
                    removed += 1
                except TerminalError as error:
                    _log.warning("not all that the killed run has left could be removed: %s", error)
        except Exception as error:  # of a backend installed apart, too
            _log.warning("what the killed run has left on backend %r could not be looked for: %s", backend, error)
    return removed
