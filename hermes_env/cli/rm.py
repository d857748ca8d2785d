"""`hermes-env rm`: removes running and kept targets."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from environments.errors import TerminalError
from environments.found_target import FoundTarget
from environments.model_view import plain
from environments.result import DENIED_EXIT_CODE
from hermes_env.approver import confirm
from hermes_env.cli.errors import ERROR_EXIT_CODE, WrongUsageError, print_message
from hermes_env.cli.inventory import checked_inventory, print_failures
from hermes_env.cli.ls import described
from hermes_env.cli.options import BackendAlone, Task, Verbose

Found = tuple[str, FoundTarget]

_USERS = {"live": "a process uses it", "elsewhere": "it belongs to another machine, where it may be in use"}
_FEWEST = 4
"""Characters of the shortest accepted prefix of an id."""


def rm_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="An id or a name from `ls`, or the beginning of an id."),
    ] = None,
    *,
    backend: BackendAlone = None,
    task: Task = None,
    everything: Annotated[bool, typer.Option("--all", help="Remove all targets that are not in use.")] = False,
    force: Annotated[
        bool,
        typer.Option("--force", "-f", help="Do not ask, and also remove targets in use."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    verbose: Verbose = 0,
) -> None:
    """Remove targets listed by `ls`: by name, by task, or all.

    On a terminal, asks first. Targets in use, also by another machine, stay unless --force is given. Naming such a
    target is an error; then nothing is removed.
    """
    if sum((bool(names), task is not None, everything)) != 1:
        raise WrongUsageError("rm: give either names, or --task, or --all; see `hermes-env rm --help`")
    inventory = checked_inventory(backend, verbose)
    if names:
        chosen = select(inventory.found, names, list(inventory.failed))
        _refuse_used(chosen, force)
    else:
        print_failures(inventory)
        wanted = [(name, target) for name, target in inventory.found if task in (None, target.task)]
        chosen = [(name, target) for name, target in wanted if force or not target.is_in_use]
        if left := len(wanted) - len(chosen):
            print_message(f"not removed: {left} in use or elsewhere; --force removes them too", "yellow")
    if not chosen:
        typer.echo("nothing to remove", err=True)
        return
    if not (force or yes or _confirm(chosen)):
        raise typer.Exit(DENIED_EXIT_CODE)
    failed = [target for name, target in chosen if not _removed(name, target, force)]
    if failed:
        raise typer.Exit(ERROR_EXIT_CODE)


def select(found: list[Found], names: list[str], failed: list[str]) -> list[Found]:
    """Return the targets with some names, without duplicates.

    Args:
        found: All targets.
        names: Ids, names, or the beginnings of ids.
        failed: Backends that could not be queried.

    Raises:
        TerminalError: A name matches no target, or several.
    """
    chosen: list[Found] = []
    for name in names:
        exact = [each for each in found if name in (each[1].id, each[1].name)]
        meant = exact or [each for each in found if len(name) >= _FEWEST and each[1].id.startswith(name)]
        if not meant:
            where = f"; {', '.join(failed)} could not be queried" if failed else ""
            raise TerminalError(f"nothing that runs or is kept is called {plain(name)!r}{where}; see `hermes-env ls`")
        if len(meant) > 1:
            matches = "; ".join(described(*each) for each in meant)
            raise TerminalError(f"{plain(name)!r} matches several: {matches}; give more of the id, or --backend")
        chosen += [each for each in meant if each not in chosen]
    return chosen


def _refuse_used(chosen: list[Found], force: bool) -> None:
    for name, target in chosen:
        if target.is_in_use and not force:
            user = f"process {target.pid} uses it" if target.pid else _USERS[target.use]
            raise TerminalError(f"{described(name, target)} is not removed: {user}; end that first, or give --force")


def _confirm(chosen: list[Found]) -> bool:
    """Ask at the terminal; without a terminal, return True."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    for name, target in chosen:
        typer.echo(described(name, target), err=True)
    targets = "it" if len(chosen) == 1 else f"these {len(chosen)}"
    return confirm(f"Remove {targets}, with all files in there? [y/N] ", lambda: False)


def _removed(name: str, target: FoundTarget, force: bool) -> bool:
    """Remove a target, and print a line. Returns False, after printing the error, if the removal failed."""
    try:
        target.remove(force)
    except TerminalError as error:
        print_message(plain(str(error)))
        return False
    typer.echo(f"removed {described(name, target)}")
    return True
