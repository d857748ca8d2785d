"""`hermes-env batch`: runs many tasks in many environments."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from environments.errors import SettingsError
from environments.result import INTERRUPT_EXIT_CODE, TIMEOUT_EXIT_CODE
from hermes_env.batch import Summary, TaskError, run_batch
from hermes_env.batch.options import Retry, work_named
from hermes_env.batch.progress import SHOW_CURSOR, BatchDisplay
from hermes_env.batch.result import STATUSES, Status
from hermes_env.cli.debug_log import show_new_host_keys
from hermes_env.cli.errors import WrongUsageError
from hermes_env.cli.foreground import run_interruptibly
from hermes_env.cli.options import (
    Backend,
    Cwd,
    Record,
    Settings,
    Timeout,
    Verbose,
    seconds,
    settings_from,
    whole_number,
)
from hermes_env.progress import StartDisplay

FAILED_EXIT_CODE = 1
Number = TypeVar("Number", int, float)


def batch_command(
    tasks: Annotated[str, typer.Argument(metavar="TASKS", help="A JSON Lines file of tasks, or - for standard input.")],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="RESULTS", help="Append results to this file.")],
    workers: Annotated[
        int,
        typer.Option(
            "--workers", "-w", metavar="N", parser=whole_number("--workers", 1), help="Largest number of tasks at once."
        ),
    ] = 8,
    engine: Annotated[
        str, typer.Option(metavar="threads|ray", help="In this process, or on a Ray cluster.")
    ] = "threads",
    work: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="Call function(env, task) for each task.",
        ),
    ] = None,
    backend: Backend = None,
    cwd: Cwd = None,
    timeout: Timeout = None,
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            parser=seconds("--budget", finite=True),
            help="End the batch this long after the first task began.",
        ),
    ] = None,
    retry: Annotated[
        str, typer.Option(metavar="STATUS", help="Retry: never, always, or statuses such as error,timeout.")
    ] = "never",
    uses: Annotated[
        int,
        typer.Option(metavar="N", parser=whole_number("--uses", 1), help="Tasks per environment, one after another."),
    ] = 1,
    limit: Annotated[
        list[str] | None,
        typer.Option(metavar="PLACE=N", help="Limit tasks at once on a backend or backend:host; may be repeated."),
    ] = None,
    address: Annotated[str | None, typer.Option(metavar="ADDRESS", help="The address of the Ray cluster.")] = None,
    resource: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=AMOUNT", help="Cluster resource per environment; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    record: Record = None,
    verbose: Verbose = 0,
    assignments: Settings = None,
) -> None:
    """Run many tasks, each in an environment, and write a result for each.

    A task is a line such as {"id": "1", "command": "make test"}, or with "script"; optional fields are "timeout",
    "files" and "settings". The same command resumes a batch that was ended, also by kill -9. A second Ctrl-C exits at
    once.

    Exit codes: 0 all tasks succeeded, 1 some failed; 124 the budget was used up, 130 Ctrl-C, 125 another error of
    hermes-env, 2 wrong usage, setting or task.
    """
    show_new_host_keys()
    interrupt = threading.Event()
    settings = {**settings_from(assignments, cwd=cwd, record=record), **({"backend": backend} if backend else {})}
    with BatchDisplay() as display, StartDisplay(verbose) as starts:
        if verbose and engine == "threads":  # actors of a cluster cannot print here
            settings["on_progress"] = starts.update
        batch = partial(
            run_batch,
            tasks,
            settings,
            None if work is None else work_named(work),
            workers=workers,
            engine=engine,
            out=out,
            retry=_retried(retry),
            budget=budget,
            timeout=timeout,
            uses=uses,
            limits=_numbers("--limit", limit, int),
            progress=display.update,
            interrupt=interrupt,
            address=address,
            resources=_numbers("--resource", resource, float),
        )
        try:
            summary = run_interruptibly(batch, partial(_end, interrupt), on_second=_exit_at_once)
        except TaskError as error:
            raise WrongUsageError(str(error)) from error
    _print_summary(summary, as_json=as_json)
    raise typer.Exit(_exit_code_of(summary))


def _print_summary(summary: Summary, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(summary.to_dict()))
    typer.secho(f"hermes-env: {summary}", fg="green" if summary.ok else "yellow", err=True)


def _exit_code_of(summary: Summary) -> int:
    if summary.stopped:
        return INTERRUPT_EXIT_CODE if summary.stopped == "interrupted" else TIMEOUT_EXIT_CODE
    return 0 if summary.ok else FAILED_EXIT_CODE


def _retried(text: str) -> Retry | list[Status]:
    if text == "never":
        return "never"
    if text == "always":
        return "always"
    chosen: list[Status] = [status for status in STATUSES if status in text.split(",")]
    if unknown := set(text.split(",")) - set(chosen):
        raise SettingsError(
            f"--retry {min(unknown)}: there is no such status; give never, always, or some of {','.join(STATUSES)}"
        )
    return chosen


def _numbers(option: str, assignments: list[str] | None, kind: Callable[[str], Number]) -> dict[str, Number]:
    found = {}
    for assignment in assignments or []:
        name, _, text = assignment.rpartition("=")
        if name in found:
            raise SettingsError(f"{option} {name}: it is given twice; keep one")
        try:
            found[name] = kind(text)
        except ValueError:
            name = ""
        if not name or not found[name] > 0:
            raise SettingsError(f"{option} {assignment}: it should be a name, = and a number above 0")
    return found


def _end(interrupt: threading.Event, signal: str) -> None:
    """End the batch after the first signal."""
    if not interrupt.is_set():
        interrupt.set()
        typer.echo(f"hermes-env: {signal}: ending the running tasks; press Ctrl-C again to exit at once", err=True)


def _exit_at_once() -> None:
    """Exit without clean-up, after a second Ctrl-C."""
    ending = SHOW_CURSOR if sys.stderr.isatty() else ""
    sys.stderr.write(f"{ending}\nhermes-env: exited at once; the same command resumes, and removes orphans\n")
    sys.stderr.flush()
    os._exit(INTERRUPT_EXIT_CODE)
