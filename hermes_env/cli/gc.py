"""`hermes-env gc`: removes the orphans of killed processes."""

from __future__ import annotations

from typing import Annotated

import typer

from environments.inventory import collect_garbage, collected
from environments.model_view import plain
from hermes_env.cli.inventory import checked_inventory, print_failures, with_display
from hermes_env.cli.options import Verbose


def gc_command(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="List the orphans without removing them.")] = False,
    verbose: Verbose = 0,
) -> None:
    """Remove the orphans of killed processes.

    Targets of running processes and of other machines stay. Persistent containers are stopped, but not removed.
    """
    if dry_run:
        inventory = checked_inventory(None, verbose)
        print_failures(inventory)
        lines = [f"{name}: {collected(target, done=False)}" for name, target in inventory.orphans]
    else:
        lines = with_display(collect_garbage, verbose)
    for line in lines:
        typer.echo(plain(line))
    if not lines:
        typer.echo("nothing to collect")
