"""The options that `hermes-env batch` has alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from environments.errors import SettingsError
from environments.plain_number import plain_number


def _positive(seconds: float | None) -> float | None:
    if seconds is not None and not seconds > 0:
        raise SettingsError(f"--budget {plain_number(seconds)}: it should be greater than 0")
    return seconds


Tasks = Annotated[str, typer.Argument(metavar="TASKS", help="A file of tasks, or - for standard input.")]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="RESULTS", help="The file that results are added to.")]
Workers = Annotated[
    int, typer.Option("--workers", "-w", metavar="N", min=1, help="How many tasks run at once at most.")
]
Engine = Annotated[str, typer.Option(metavar="threads|ray", help="What runs them.")]
WorkName = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:FUNCTION",
        help="Python code, of the current directory or installed, that works on each task as function(env, task).",
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", callback=_positive, help="End the whole after so long; what is left can wait."),
]
RetryWhich = Annotated[
    str, typer.Option(metavar="WHICH", help="Which to run again: never, always, or statuses such as error,timeout.")
]
Uses = Annotated[
    int, typer.Option(metavar="N", min=1, help="How many tasks one environment is used for, one after the other.")
]
Limits = Annotated[
    list[str] | None,
    typer.Option(metavar="PLACE=N", help="So many at once on a backend, or on backend:host. May be repeated."),
]
Address = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Where the cluster is, for Ray.")]
Resources = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=AMOUNT", help="What an environment takes of the cluster. May be repeated."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print how it ended as JSON on standard output.")]
