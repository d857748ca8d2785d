"""Listing of running and stored targets on all usable backends, and garbage collection of orphans."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from environments.base import BaseEnvironment
from environments.cancellation import cancellable, check_scope, on_scope_cancel
from environments.errors import EnvironmentStartError, MissingExtraError, TerminalError
from environments.found_target import FoundTarget
from environments.log import logger
from environments.registry import backend_class, backend_names, backend_settings_class
from environments.sources import load_settings
from environments.starting import Start

log = logger(__name__)

OnLook = Callable[[Sequence[str]], object]
"""Called with the names of the backends still being listed: first, and after each backend. Called in any
thread."""


@dataclass(slots=True)
class Inventory:
    """The targets found."""

    found: list[tuple[str, FoundTarget]] = field(default_factory=list)
    """Pairs of backend name and target; the oldest of a backend first."""
    failed: dict[str, str] = field(default_factory=dict)
    """Reasons of failed listings, by backend name."""

    @property
    def orphans(self) -> list[tuple[str, FoundTarget]]:
        """Targets of killed processes, removed by `collect_garbage`."""
        return [(name, target) for name, target in self.found if target.use == "orphan"]


def take_inventory(backends: Collection[str] | None = None, *, on_look: OnLook | None = None) -> Inventory:
    """List the running and stored targets of all backends in parallel.

    Args:
        backends: Names of backends; None lists all usable backends. A missing client library or missing credentials are
            a failure only of a backend named here: without them no target can exist.
        on_look: See `OnLook`.

    Raises:
        CallCancelledError: The caller's scope was cancelled.
    """
    inventory = Inventory()
    order = _visit(backends, lambda *found: inventory.found.append(found), inventory.failed, on_look)
    inventory.found.sort(key=lambda each: (order.index(each[0]), each[1].created or 0.0, each[1].id))
    return inventory


def collect_garbage(backends: Collection[str] | None = None, *, on_look: OnLook | None = None) -> list[str]:
    """Remove the orphans of killed processes of this machine, one backend after the other.

    A backend that cannot be listed, such as for an engine that does not answer, is a warning in the log.

    Args:
        backends: See `take_inventory`.
        on_look: See `OnLook`.

    Returns:
        A line for each orphan removed, or stopped if its files are stored.

    Raises:
        CallCancelledError: The caller's scope was cancelled.
    """
    failed: dict[str, str] = {}
    removed: list[str] = []

    def collect(backend: str, target: FoundTarget) -> None:
        try:
            if target.use == "orphan" and target.collect():
                removed.append(f"{backend}: {collected(target)}")
        except TerminalError as error:
            log.warning("not everything could be collected: %s", error)

    _visit(backends, collect, failed, on_look, at_once=1)
    for name, why in failed.items():
        log.warning("%s could not be looked at: %s", name, why)
    return removed


def collected(target: FoundTarget, *, done: bool = True) -> str:
    """Return a line for people about the end of an orphan.

    Args:
        target: The orphan.
        done: True if the orphan was collected; False for a dry run.
    """
    would, did = ("stop", "stopped") if target.set_aside else ("remove", "removed")
    owner = f"process {target.pid}" if target.pid else "process"
    kept = "; its files are kept" if target.set_aside else ""
    return f"{did if done else f'would {would}'} {target}, whose {owner} has ended{kept}"


@cancellable
def _visit(
    backends: Collection[str] | None,
    each: Callable[[str, FoundTarget], object],
    failed: dict[str, str],
    on_look: OnLook | None,
    at_once: int | None = None,
) -> list[str]:
    """Visit the targets of several backends in parallel, and return the names of the backends.

    Args:
        backends: See `take_inventory`.
        each: Called with the backend's name and each target during the listing.
        failed: Receives the reason of a failed listing by backend name.
        on_look: See `OnLook`.
        at_once: Number of backends to list in parallel; None is all.
    """
    names = list(backends) if backends is not None else _known_backends(failed)
    pending = dict.fromkeys(names)
    starts = {name: Start(name) for name in names}

    def report(done: str | None = None) -> None:
        pending.pop(done or "", None)
        if on_look:
            on_look(list(pending))

    def look(name: str, kind: type[BaseEnvironment]) -> None:
        def go_through() -> None:
            for target in kind.list_targets():
                each(name, target)

        try:
            # Some clients cannot be aborted: a listing that waits for its service is detached.
            starts[name].run_detachable(go_through, undo=lambda: None)
        except Exception as error:  # of an external backend too, which must not hide the targets of the others
            log.debug("backend %s could not be looked at", name, exc_info=True)
            failed[name] = str(error) if isinstance(error, TerminalError) else f"{type(error).__name__}: {error}"
        report(name)

    def stop() -> None:
        for start in starts.values():
            start.mark_stopped("the listing was cancelled")
            start.abort()

    report()
    kinds = {}
    for name in names:  # one after the other: libraries with circular imports do not import in parallel
        try:
            if backends is None:  # skips the slow import of client libraries for services without credentials
                backend_settings_class(name).check_credentials()
            kinds[name] = backend_class(name)
        except TerminalError as error:
            if backends is not None or not isinstance(error, MissingExtraError | EnvironmentStartError):
                failed[name] = str(error)
            report(name)
    with on_scope_cancel(stop), ThreadPoolExecutor(at_once or max(1, len(names)), "inventory") as pool:
        list(pool.map(look, kinds.keys(), kinds.values()))
    check_scope()
    return names


def _known_backends(failed: dict[str, str]) -> list[str]:
    """Return the names of all usable backends, plus a configured backend known by its import path only.

    Args:
        failed: Receives the reason if the configured backend cannot be determined.
    """
    names = backend_names()
    try:
        names.append(load_settings().env)
    except TerminalError as error:
        failed["the configured backend"] = str(error)
    return list(dict.fromkeys(names))
