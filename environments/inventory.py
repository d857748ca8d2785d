"""All that runs or is kept on the backends that can be looked at, and the removal of what killed processes left."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from environments.base import BaseEnvironment
from environments.cancellation import cancellable, check_scope, ended_in_scope
from environments.errors import EnvironmentStartError, MissingExtraError, TerminalError
from environments.found_target import FoundTarget
from environments.log import logger
from environments.registry import backend_class, backend_names, backend_settings_class
from environments.sources import load_settings
from environments.starting import Start

log = logger(__name__)

OnLook = Callable[[Sequence[str]], object]
"""Called with the names of the backends that are still looked at, when that begins and when one of them is done, in
any thread."""


@dataclass(slots=True)
class Inventory:
    """The targets that were found."""

    found: list[tuple[str, FoundTarget]] = field(default_factory=list)
    """Each with the name of its backend; those of a backend with the oldest first."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why a backend could not be looked at, by its name."""

    @property
    def orphans(self) -> list[tuple[str, FoundTarget]]:
        """Those whose process was killed, so that `collect_garbage` removes them."""
        return [(name, target) for name, target in self.found if target.use == "orphan"]


def take_inventory(backends: Collection[str] | None = None, *, on_look: OnLook | None = None) -> Inventory:
    """Look for what environments have running or keep, on all backends at once.

    Args:
        backends: The names of those to look at; None is all that can be used here. Without its client library or its
            credentials nothing can be found on a backend, so that this is a failure only of one that is named.
        on_look: See `OnLook`.

    Raises:
        CallCancelledError: The scope of its caller was cancelled.
    """
    inventory = Inventory()
    order = _visit(backends, lambda *found: inventory.found.append(found), inventory.failed, on_look)
    inventory.found.sort(key=lambda each: (order.index(each[0]), each[1].created or 0.0, each[1].id))
    return inventory


def collect_garbage(backends: Collection[str] | None = None, *, on_look: OnLook | None = None) -> list[str]:
    """Remove what processes of this machine that were killed have left behind, on one backend after the other.

    A backend that cannot be looked at, because its engine does not answer, is reported as a warning in the log.

    Args:
        backends: As of `take_inventory`.
        on_look: See `OnLook`.

    Returns:
        A line for each thing that was removed, or that was stopped as its files are kept.

    Raises:
        CallCancelledError: The scope of its caller was cancelled.
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
    """Return a line for people that tells the end of an orphan.

    Args:
        target: The orphan.
        done: Whether it was collected, or would be.
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
    """Go through the targets of backends, several backends at once, and return the names of these.

    Args:
        backends: As of `take_inventory`.
        each: Called with the backend's name for each target, while its backend is looked at.
        failed: Receives why a backend could not be looked at.
        on_look: See `OnLook`.
        at_once: How many backends are looked at at the same time; None is all.
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
            # Not every client can be broken off: one that waits for its service is left alone.
            starts[name].run_detachable(go_through, undo=lambda: None)
        except Exception as error:  # also of a backend installed apart, which must not hide what the others find
            log.debug("backend %s could not be looked at", name, exc_info=True)
            failed[name] = str(error) if isinstance(error, TerminalError) else f"{type(error).__name__}: {error}"
        report(name)

    def stop() -> None:
        for start in starts.values():
            start.mark_stopped("it is waited for no longer")
            start.abort()

    report()
    kinds = {}
    for name in names:  # one after the other, as libraries that import each other are not for several threads
        try:
            if backends is None:  # else the client libraries of services that are not used are imported, which is slow
                backend_settings_class(name).check_credentials()
            kinds[name] = backend_class(name)
        except TerminalError as error:
            if backends is not None or not isinstance(error, MissingExtraError | EnvironmentStartError):
                failed[name] = str(error)
            report(name)
    with ended_in_scope(stop), ThreadPoolExecutor(at_once or max(1, len(names)), "inventory") as pool:
        list(pool.map(look, kinds.keys(), kinds.values()))
    check_scope()
    return names


def _known_backends(failed: dict[str, str]) -> list[str]:
    """Return the names of all backends that can be used here, and of the configured one, known by its path alone.

    Args:
        failed: Receives why the configured one is not among them.
    """
    names = backend_names()
    try:
        names.append(load_settings().env)
    except TerminalError as error:
        failed["the configured backend"] = str(error)
    return list(dict.fromkeys(names))
