"""All that runs or is kept on the backends that can be looked at, and the removal of what killed processes left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from environments.base import BaseEnvironment
from environments.cancellation import cancellable, check_scope, ended_in_scope
from environments.errors import MissingExtraError, TerminalError
from environments.found_target import FoundTarget
from environments.log import logger
from environments.owner import Orphan
from environments.registry import backend_class, backend_names
from environments.sources import load_settings
from environments.starting import Start

log = logger(__name__)


@dataclass(slots=True)
class Inventory:
    """What was found."""

    found: list[tuple[str, FoundTarget]] = field(default_factory=list)
    """Each with the name of its backend."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why a backend could not be looked at, by its name."""


@cancellable
def take_inventory(backends: Sequence[str] | None = None) -> Inventory:
    """Look for what environments have running or keep, on all backends at once.

    Args:
        backends: The names of those to look at; None is all that can be used here. Without its client library nothing
            was ever made on a backend, so that this is a failure only of one that is named.

    Raises:
        CallCancelledError: The scope of its caller was cancelled.
    """
    names, failed = known_backends() if backends is None else (list(backends), {})
    inventory = Inventory(failed=failed)
    looks = []
    for name in names:  # one after the other, as libraries that import each other are not for several threads
        try:
            looks.append(_Look(name, backend_class(name)))
        except TerminalError as error:
            if backends is not None or not isinstance(error, MissingExtraError):
                inventory.failed[name] = str(error)
    with ended_in_scope(partial(_stop, looks)), ThreadPoolExecutor(len(names), "inventory") as pool:
        for look, (found, why) in zip(looks, pool.map(_Look.found, looks), strict=True):
            inventory.found += [(look.backend, target) for target in found]
            if why:
                said = str(why) if isinstance(why, TerminalError) else f"{type(why).__name__}: {why}"
                inventory.failed[look.backend] = said
    check_scope()
    return inventory


class _Look:
    """A look at one backend."""

    def __init__(self, backend: str, kind: type[BaseEnvironment]) -> None:
        self.backend = backend
        self.start = Start(backend)
        self._kind = kind
        self._targets: list[FoundTarget] = []

    def found(self) -> tuple[list[FoundTarget], Exception | None]:
        """Return what was found, the oldest first, and what kept us from finding the rest."""
        failure: Exception | None = None
        try:
            # Not every client can be broken off: one that waits for its service is left alone.
            self.start.alone(self._go_through, undo=lambda: None)
        except Exception as error:  # also of a backend installed apart, which must not hide what the others find
            log.debug("backend %s could not be looked at", self.backend, exc_info=True)
            failure = error
        return sorted(self._targets, key=lambda target: (target.created or 0.0, target.id)), failure

    def _go_through(self) -> None:
        for target in self._kind.find_targets():
            self._targets.append(target)


def _stop(looks: Sequence[_Look]) -> None:
    for look in looks:
        look.start.mark("it is waited for no longer")
        look.start.break_off()


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
