"""`python -m benchmarks [NAME...]`: measure, and print one table."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator

from rich.console import Console

from benchmarks.table import Row, table_of
from environments import TerminalError

SUBJECTS = (
    "startup",
    "local",
    "output",
    "many",
    "docker",
    "lifecycle",
    "ssh",
    "singularity",
    "over_ssh",
    "modal",
    "daytona",
)
NARROWEST = 150
"""Columns that the table takes at least, also where it is not printed on a terminal."""


def rows_of(subject: str) -> Iterator[Row]:
    """Measure one subject; where what it needs is missing, return one row that says so."""
    try:
        yield from importlib.import_module(f"benchmarks.{subject}").rows()
    except TerminalError as error:
        yield Row(what=subject, note=f"not measured: {error}")


def main() -> None:
    """Measure the subjects that the command line names, or all."""
    subjects = sys.argv[1:] or SUBJECTS
    if unknown := [subject for subject in subjects if subject not in SUBJECTS]:
        sys.exit(f"there is no benchmark {', '.join(unknown)}; there are: {', '.join(SUBJECTS)}")
    progress, rows = Console(stderr=True), []
    with progress.status("") as status:
        for subject in subjects:
            status.update(f"measuring {subject}")
            rows += list(rows_of(subject))
    Console(width=max(progress.width, NARROWEST)).print(table_of(rows))


if __name__ == "__main__":
    main()
