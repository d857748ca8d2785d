"""What runs and what is kept on all backends that can be looked at."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from environments.errors import MissingExtraError, TerminalError
from environments.found_target import FoundTarget
from environments.log import logger
from environments.registry import backend_class, backend_names
from environments.sources import load_settings

log = logger(__name__)


@dataclass(slots=True)
class Inventory:
    """What was found."""

    found: list[tuple[str, FoundTarget]] = field(default_factory=list)
    """Each with the name of its backend."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why a backend could not be looked at, by its name."""


def take_inventory(backends: Sequence[str] | None = None) -> Inventory:
    """Look for what environments have running or keep, on all backends at once.

    Args:
        backends: The names of those to look at; None is all that can be used here. Without its client library nothing
            was ever made on a backend, so that this is a failure only of one that is named.
    """
    names, failed = known_backends() if backends is None else (list(backends), {})
    inventory = Inventory(failed=failed)
    with ThreadPoolExecutor(max_workers=len(names), thread_name_prefix="inventory") as pool:
        for name, (found, why) in zip(names, pool.map(_look_at, names), strict=True):
            inventory.found += [(name, target) for target in found]
            if why and (backends is not None or not isinstance(why, MissingExtraError)):
                inventory.failed[name] = str(why) if isinstance(why, TerminalError) else f"{type(why).__name__}: {why}"
    return inventory


def known_backends() -> tuple[list[str], dict[str, str]]:
    """Return the names of all backends that can be used here, and why one is not among them that might be.

    The configured one is among them; it may be known by its path alone.
    """
    names, failed = backend_names(), {}
    try:
        names.append(load_settings().env)
    except TerminalError as error:
        failed["the configured backend"] = str(error)
    return list(dict.fromkeys(names)), failed


def _look_at(backend: str) -> tuple[list[FoundTarget], Exception | None]:
    """Return what was found on a backend, the oldest first, and what kept us from finding the rest."""
    found: list[FoundTarget] = []
    failure: Exception | None = None
    try:
        for target in backend_class(backend).find_targets():
            found.append(target)
    except Exception as error:  # also of a backend installed apart, which must not hide what the others find
        log.debug("backend %s could not be looked at", backend, exc_info=True)
        failure = error
    return sorted(found, key=lambda target: (target.created or 0.0, target.id)), failure
