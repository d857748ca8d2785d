"""A look at the targets of all backends, as `ls`, `gc`, `rm` and `doctor` take it: its wait and its failures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from environments.errors import TerminalError
from environments.inventory import Inventory, take_inventory
from environments.model_view import plain
from environments.redaction import without_secrets
from environments.registry import backend_settings_class
from hermes_env.cli.errors import tell
from hermes_env.cli.foreground import Foreground
from hermes_env.progress import InventoryDisplay

Result = TypeVar("Result")


def looked_for(backend: str | None, verbose: int = 0) -> Inventory:
    """Take the inventory.

    Args:
        backend: The backend to look at; None is all of them.
        verbose: See `InventoryDisplay`.

    Raises:
        SettingsError: There is no backend of that name.
        TerminalError: It cannot be looked at.
        EndedBySignalError: Ctrl-C ended the wait.
    """
    if backend:
        backend_settings_class(backend)
    inventory = shown_look(partial(take_inventory, [backend] if backend else None), verbose)
    if backend and (why := inventory.failed.get(backend)):
        raise TerminalError(why)
    return inventory


def shown_look(look: Callable[..., Result], verbose: int) -> Result:
    """Return the result of a function of `environments.inventory`, and report the backends that it looks at.

    Args:
        look: Is given `on_look`.
        verbose: See `InventoryDisplay`.

    Raises:
        EndedBySignalError: Ctrl-C ended the wait.
    """
    with InventoryDisplay(verbose) as shown:
        return Foreground().run(lambda: look(on_look=shown.update))


def tell_failures(inventory: Inventory) -> None:
    """Report the backends that could not be looked at."""
    for name, why in inventory.failed.items():
        tell(f"{name} cannot be looked at: {reason(name, why)}", "yellow")


def reason(backend: str, error: str) -> str:
    """Return an error of a backend on one line and without secrets, to stand behind its name."""
    return " ".join(without_secrets(plain(error)).split()).removeprefix(f"backend {backend!r}").lstrip(": ")
