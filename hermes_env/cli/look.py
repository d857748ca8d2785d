"""A look at the targets of all backends, as `ls`, `gc`, `rm` and `doctor` have it: its wait and its failures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import typer

from environments.model_view import plain
from environments.result import INTERRUPT_EXIT_CODE

if TYPE_CHECKING:
    from environments.inventory import Inventory

Result = TypeVar("Result")


def looked_for(backend: str | None, verbose: int = 0) -> Inventory:
    """Look for what there is.

    Args:
        backend: The backend to look at; None is all of them.
        verbose: See `ShownLook`.

    Raises:
        TerminalError: The backend that is named cannot be looked at.
        typer.Exit: Ctrl-C ended the wait.
    """
    from environments import TerminalError
    from environments.inventory import take_inventory

    inventory = shown_look(partial(take_inventory, [backend] if backend else None), verbose)
    if backend and (why := inventory.failed.get(backend)):
        raise TerminalError(why)
    return inventory


def shown_look(look: Callable[..., Result], verbose: int) -> Result:
    """Return what a function of `environments.inventory` returns. The backends that it looks at are told.

    Args:
        look: Is given `on_look`.
        verbose: See `ShownLook`.

    Raises:
        typer.Exit: Ctrl-C ended the wait.
    """
    from environments import CallCancelledError, CancelScope
    from hermes_env.cli.foreground import run_interruptibly
    from hermes_env.progress import ShownLook

    scope = CancelScope()

    def work() -> Result:
        with scope.active():
            return look(on_look=shown.tell)

    try:
        with ShownLook(verbose) as shown:
            return run_interruptibly(work, scope.cancel)
    except CallCancelledError:
        raise typer.Exit(INTERRUPT_EXIT_CODE) from None


def tell_failures(inventory: Inventory) -> None:
    """Say which backends could not be looked at."""
    for name, why in inventory.failed.items():
        typer.echo(f"hermes-env: {name} cannot be looked at: {reason(name, why)}", err=True)


def reason(backend: str, error: str) -> str:
    """Return an error of a backend on one line and without secrets, for where its name stands before."""
    from environments.redaction import without_secrets  # with the first error

    return " ".join(without_secrets(plain(error)).split()).removeprefix(f"backend {backend!r}").lstrip(": ")
