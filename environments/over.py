"""The setting `over`: which backend leads to the machine that another backend's engine is on."""

from __future__ import annotations

from collections.abc import Iterable

from environments.errors import SettingsError, UnsupportedError
from environments.registry import BUILT_IN, backend_settings_class
from environments.validation import Given, closest


def chosen_over(backend: str, argument: Given, configured: Iterable[Given], *, is_named: bool) -> str | None:
    """Return the backend that another one is had over; None if its engine is on this machine.

    Args:
        backend: The one that has an engine.
        argument: What the argument `over` says.
        configured: What the other sources say, the first over the rest.
        is_named: Whether an argument names the backend. What is configured for another is then not meant for one
            that has no engine.

    Raises:
        SettingsError: What is named leads to no such machine.
        UnsupportedError: The backend has no engine that could be on one.
    """
    goes = backend_settings_class(backend).goes_over
    given = next((given for given in (argument, *configured) if given.value is not None), None)
    if given is None or (is_named and not goes and given is not argument):
        return None
    if not goes:
        others = " or ".join(name for name in BUILT_IN if backend_settings_class(name).goes_over)
        raise UnsupportedError(
            f"{given.where}: backend {backend!r} has no engine that could be on another machine; leave over "
            f"(TERMINAL_OVER) unset, or use {others}"
        )
    carriers = [name for name in BUILT_IN if backend_settings_class(name).carries]
    if given.value not in carriers:
        raise SettingsError(
            f"{given.where}: {given.value!r} does not lead to a machine with an engine"
            f"{closest(str(given.value), carriers)}; allowed: {', '.join(carriers)}"
        )
    return str(given.value)
