"""`hermes-env rm`: removing what is kept, or was left running."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from environments.errors import TerminalError
from environments.found_target import FoundTarget
from environments.model_view import plain
from environments.result import DENIED_EXIT_CODE
from hermes_env.approver import consents
from hermes_env.cli.errors import ERROR_EXIT_CODE, WrongUsageError, tell
from hermes_env.cli.look import looked_for, tell_failures
from hermes_env.cli.ls import described
from hermes_env.cli.options import BackendAlone, Task, Verbose

Found = tuple[str, FoundTarget]

_USERS = {"live": "a process uses it", "elsewhere": "it belongs to another machine, where it may be in use"}
_FEWEST = 4
"""Characters of an id that name something, if they are the first of one alone."""


def rm_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="An id or a name of `ls`, or how an id begins."),
    ] = None,
    *,
    backend: BackendAlone = None,
    task: Task = None,
    everything: Annotated[bool, typer.Option("--all", help="Remove all that no process uses.")] = False,
    force: Annotated[
        bool,
        typer.Option("--force", "-f", help="Do not ask, and remove also what is in use."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    verbose: Verbose = 0,
) -> None:
    """Remove what `ls` shows: by its name, by its task, or all of it.

    On a terminal it asks first. What a process uses, or another machine has, stays unless --force is given; if it was
    named, that is an error, and nothing is removed.
    """
    if sum((bool(names), task is not None, everything)) != 1:
        raise WrongUsageError("rm: give either names, or --task, or --all; see `hermes-env rm --help`")
    inventory = looked_for(backend, verbose)
    if names:
        chosen = named(inventory.found, names, list(inventory.failed))
        _refuse_what_is_in_use(chosen, force)
    else:
        tell_failures(inventory)
        wanted = [(name, target) for name, target in inventory.found if task in (None, target.task)]
        chosen = [(name, target) for name, target in wanted if force or not target.is_in_use]
        if left := len(wanted) - len(chosen):
            tell(f"{left} left alone: in use, or elsewhere; --force removes those", "yellow")
    if not chosen:
        typer.echo("nothing to remove", err=True)
        return
    if not (force or yes or _consents(chosen)):
        raise typer.Exit(DENIED_EXIT_CODE)
    failed = [target for name, target in chosen if not _removed(name, target, force)]
    if failed:
        raise typer.Exit(ERROR_EXIT_CODE)


def named(found: list[Found], names: list[str], unseen: list[str]) -> list[Found]:
    """Return what some names mean, each once.

    Args:
        found: What there is.
        names: Ids, or names, or how an id begins.
        unseen: Backends that could not be looked at.

    Raises:
        TerminalError: A name means nothing, or several things.
    """
    chosen: list[Found] = []
    for name in names:
        exact = [each for each in found if name in (each[1].id, each[1].name)]
        meant = exact or [each for each in found if len(name) >= _FEWEST and each[1].id.startswith(name)]
        if not meant:
            where = f"; {', '.join(unseen)} could not be looked at" if unseen else ""
            raise TerminalError(f"nothing that runs or is kept is called {plain(name)!r}{where}; see `hermes-env ls`")
        if len(meant) > 1:
            which = "; ".join(described(*each) for each in meant)
            raise TerminalError(f"{plain(name)!r} means more than one: {which}; give more of the id, or --backend")
        chosen += [each for each in meant if each not in chosen]
    return chosen


def _refuse_what_is_in_use(chosen: list[Found], force: bool) -> None:
    for name, target in chosen:
        if target.is_in_use and not force:
            who = f"process {target.pid} uses it" if target.pid else _USERS[target.use]
            raise TerminalError(f"{described(name, target)} is not removed: {who}; end that first, or give --force")


def _consents(chosen: list[Found]) -> bool:
    """Ask at the terminal; without one, return True."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    for name, target in chosen:
        typer.echo(described(name, target), err=True)
    what = "it" if len(chosen) == 1 else f"these {len(chosen)}"
    return consents(f"Remove {what}, with all files in there? [y/N] ", lambda: False)


def _removed(name: str, target: FoundTarget, force: bool) -> bool:
    """Remove something, and say so. Returns False, and says why, if that failed."""
    try:
        target.remove(force)
    except TerminalError as error:
        tell(plain(str(error)))
        return False
    typer.echo(f"removed {described(name, target)}")
    return True
