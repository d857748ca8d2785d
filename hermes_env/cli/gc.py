"""`hermes-env gc`: removing what killed processes have left behind."""

from __future__ import annotations

from typing import Annotated

import typer

from environments.inventory import collect_garbage, collected
from environments.model_view import plain
from hermes_env.cli.look import looked_for, shown_look, tell_failures
from hermes_env.cli.options import Verbose


def gc_command(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Show what would be removed, and remove nothing.")
    ] = False,
    verbose: Verbose = 0,
) -> None:
    """Remove what killed processes have left behind.

    Targets of a process that still runs, or of another machine, are left alone. Containers that are to be kept are
    stopped, and not removed.
    """
    if dry_run:
        inventory = looked_for(None, verbose)
        tell_failures(inventory)
        lines = [f"{name}: {collected(target, done=False)}" for name, target in inventory.orphans]
    else:
        lines = shown_look(collect_garbage, verbose)
    for line in lines:
        typer.echo(plain(line))
    if not lines:
        typer.echo("nothing to collect")
