"""Removing what processes that were killed have left in targets that outlive them, on every backend."""

from __future__ import annotations

from collections.abc import Iterator

from environments.errors import MissingExtraError, TerminalError
from environments.inventory import known_backends
from environments.log import logger
from environments.owner import Orphan
from environments.registry import backend_class

log = logger(__name__)


def collect_garbage() -> list[str]:
    """Remove what processes of this machine that were killed have left behind, on all backends.

    A backend that cannot be looked at, because its engine does not answer, is reported as a warning in the log.

    Returns:
        A line for each thing that was removed.
    """
    removed = []
    backends, failed = known_backends()
    for which, why in failed.items():
        log.warning("%s is not looked at: %s", which, why)
    for backend in backends:
        for orphan in _orphans(backend):
            try:
                orphan.remove()
                removed.append(f"{backend}: {orphan.description}")
            except TerminalError as error:
                log.warning("not everything could be collected: %s", error)
    return removed


def _orphans(backend: str) -> Iterator[Orphan]:
    try:
        yield from backend_class(backend).find_orphans()
    except MissingExtraError as error:
        log.debug("backend %s is not looked at: %s", backend, error)  # without it nothing was ever made there
    except TerminalError as error:
        log.warning("not everything could be collected: %s", error)
    except Exception:  # of a backend installed apart, which must not hide what the others find
        log.warning("backend %s could not be looked at", backend, exc_info=True)
