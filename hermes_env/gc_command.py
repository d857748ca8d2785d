"""`hermes-env gc`: removing what killed processes have left behind."""

from __future__ import annotations

import typer

from environments.model_view import plain
from hermes_env.options import Verbose


def gc_command(verbose: Verbose = 0) -> None:
    """Remove the containers and files that processes which were killed have left behind.

    What belongs to a process that still runs, or to another machine, is left alone. Containers that are to be
    kept are stopped, and not removed.
    """
    from environments.inventory import collect_garbage

    removed = collect_garbage()
    for line in removed:
        typer.echo(plain(line))
    if not removed:
        typer.echo("nothing to collect")
