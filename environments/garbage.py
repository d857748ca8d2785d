"""Finding and removing what a process that was killed has left in targets that outlive it.

A backend whose targets need this has a finder: a function that yields what it finds, orphans only. Whose a thing is
and whether that process still runs is told by an `Owner` written on it.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from environments.base import TerminalError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Orphan:
    """Something whose owner has died."""

    description: str
    """What it is and what becomes of it, as one line for people."""
    remove: Callable[[], object]
    """Removes it. Raises TerminalError if it can't."""


Finder = Callable[[], Iterable[Orphan]]

FINDERS: Mapping[str, str] = {
    "local": "environments.shell_garbage:find_orphans_here",
    "ssh": "environments.shell_garbage:find_orphans_over_ssh",
    "docker": "environments.docker_garbage:find_orphans",
    "singularity": "environments.singularity_instance:find_orphans",
    "modal": "environments.modal_garbage:find_orphans",
    "daytona": "environments.daytona_garbage:find_orphans",
}
"""The finder of each backend, as `module:function`. Its module may need a client library that is not installed."""


def collect_garbage() -> list[str]:
    """Remove what processes of this machine that were killed have left behind, on all backends.

    A backend that cannot be looked at, because its engine does not answer, is reported as a warning in the log.

    Returns:
        A line for each thing that was removed.
    """
    removed = []
    for backend, place in FINDERS.items():
        try:
            for orphan in _finder(place)():
                orphan.remove()
                removed.append(f"{backend}: {orphan.description}")
        except ModuleNotFoundError as error:
            log.debug("backend %s is not looked at: %s", backend, error)  # without it nothing was ever made there
        except TerminalError as error:
            log.warning("not everything could be collected: %s", error)
    return removed


def _finder(place: str) -> Finder:
    module, _, name = place.partition(":")
    finder: Finder = getattr(importlib.import_module(module), name)
    return finder
