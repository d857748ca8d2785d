"""`hermes-env ls`: lists running and kept targets, on all backends."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from environments.found_target import FoundTarget, Use
from environments.model_view import plain
from hermes_env.cli.inventory import checked_inventory, print_failures
from hermes_env.cli.options import AsJson, BackendAlone, Task, Verbose

USES: Mapping[Use, str] = {"live": "in use", "orphan": "orphan", "free": "free", "elsewhere": "elsewhere"}
COLOURS: Mapping[Use, str] = {"live": "green", "orphan": "red", "free": "", "elsewhere": "yellow"}
_SHORT = 12
"""Characters of an id in a narrow table."""
_WIDE = 110
"""Smallest width of a terminal for whole ids."""
_LONG_LINE = 10_000
"""Width of a line without a terminal."""


def ls_command(
    *,
    backend: BackendAlone = None,
    task: Task = None,
    as_json: AsJson = False,
    verbose: Verbose = 0,
) -> None:
    """List running and kept targets, on all backends.

    USE is the owner's process id; "orphan" if the owner has ended (`gc` removes orphans); "free" if the target is kept
    for the next environment of the same task; "elsewhere" if the target belongs to another machine. SIZE is the size
    on disk, without the image.

    A backend that could not be queried is a line on standard error; with --backend an error.
    """
    inventory = checked_inventory(backend, verbose)
    found = [(name, target) for name, target in inventory.found if task in (None, target.task)]
    print_failures(inventory)
    if as_json:
        typer.echo(json.dumps([as_object(name, target) for name, target in found], indent=2))
    elif found:
        _print_table(found)
    else:
        typer.echo("no targets", err=True)


def as_object(backend: str, target: FoundTarget) -> dict[str, object]:
    """Return the facts of a target, ready for JSON."""
    return {
        "backend": backend,
        "kind": target.kind,
        "id": target.id,
        "name": target.name,
        "place": target.place,
        "task": target.task,
        "state": target.state,
        "use": target.use,
        "pid": target.pid if target.use == "live" else None,
        "created": target.created,
        "age_seconds": None if target.created is None else max(0.0, time.time() - target.created),
        "size_bytes": target.size,
    }


def described(backend: str, target: FoundTarget) -> str:
    """Return a target in a few words."""
    return plain(f"{backend} {target}")


def _print_table(found: list[tuple[str, FoundTarget]]) -> None:
    console = Console() if sys.stdout.isatty() else Console(width=_LONG_LINE)
    console.print(_table(found, is_wide=console.width >= _WIDE))


def _table(found: list[tuple[str, FoundTarget]], *, is_wide: bool) -> Table:
    has_places = any(target.place for _, target in found)
    has_names = any(target.snapshot_name for _, target in found)
    table = Table(box=None, pad_edge=False, padding=(0, 2 if is_wide else 1, 0, 0), header_style="bold")
    for heading in ("BACKEND", *(["PLACE"] if has_places else []), "KIND", "ID", *(["NAME"] if has_names else [])):
        table.add_column(heading, no_wrap=heading not in ("PLACE", "NAME"))
    table.add_column("TASK", overflow="fold", min_width=_SHORT)
    for heading in ("STATE", "USE", "AGE", "SIZE"):
        table.add_column(heading, no_wrap=True, justify="right" if heading in ("AGE", "SIZE") else "left")
    for name, target in found:
        shown = target.short_id if is_wide else target.id[:_SHORT]
        words = [name, *([target.place] if has_places else []), target.kind, shown]
        words += [*([target.snapshot_name] if has_names else []), target.task]
        use = f"process {target.pid}" if target.use == "live" and target.pid else USES[target.use]
        table.add_row(
            *(Text(plain(word)) for word in (*words, target.state)),
            Text(use, style=COLOURS[target.use]),
            "" if target.created is None else age(time.time() - target.created),
            "" if target.size is None else size(target.size),
        )
    return table


def age(seconds: float) -> str:
    """Return a duration in the largest unit with a value of at least 2."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def size(count: float) -> str:
    """Return a number of bytes in the largest unit with a value of at least 1."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
