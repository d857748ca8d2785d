"""The inventory of all backends for `ls`, `gc`, `rm` and `doctor`: the progress display, and failed queries."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from environments.errors import TerminalError
from environments.inventory import Inventory, take_inventory
from environments.model_view import plain
from environments.redaction import without_secrets
from environments.registry import backend_settings_class
from hermes_env.cli.errors import print_message
from hermes_env.cli.foreground import Foreground
from hermes_env.progress import InventoryDisplay

Result = TypeVar("Result")


def checked_inventory(backend: str | None, verbose: int = 0) -> Inventory:
    """Take the inventory.

    Args:
        backend: The backend to query; None is all of them.
        verbose: See `InventoryDisplay`.

    Raises:
        SettingsError: The backend is unknown.
        TerminalError: The backend could not be queried.
        EndedBySignalError: Ctrl-C ended the wait.
    """
    if backend:
        backend_settings_class(backend)
    inventory = with_display(partial(take_inventory, [backend] if backend else None), verbose)
    if backend and (why := inventory.failed.get(backend)):
        raise TerminalError(why)
    return inventory


def with_display(query: Callable[..., Result], verbose: int) -> Result:
    """Call a function of `environments.inventory`, and show the backends being queried.

    Args:
        query: Receives the argument `on_look`.
        verbose: See `InventoryDisplay`.

    Raises:
        EndedBySignalError: Ctrl-C ended the wait.
    """
    with InventoryDisplay(verbose) as display:
        return Foreground().run(lambda: query(on_look=display.update))


def print_failures(inventory: Inventory) -> None:
    """Print the backends that could not be queried."""
    for name, why in inventory.failed.items():
        print_message(f"{name} could not be queried: {reason(name, why)}", "yellow")


def reason(backend: str, error: str) -> str:
    """Return an error on one line, without secrets and the backend's name."""
    return " ".join(without_secrets(plain(error)).split()).removeprefix(f"backend {backend!r}").lstrip(": ")
