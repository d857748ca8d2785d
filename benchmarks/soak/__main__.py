"""`python -m benchmarks.soak`: run the soak test, and print the figures of each phase."""

from __future__ import annotations

import os
import sys

from rich.console import Console
from rich.table import Table

from benchmarks.soak.run import Amount, Phase, Soak
from benchmarks.soak.work import SoakError

_COLUMNS = (
    "seconds",
    "commands",
    "tool calls",
    "scripts",
    "MB",
    "threads",
    "descriptors",
    "shells",
    "processes",
    "scratch",
    "files",
)


def main() -> None:
    """Run with backend, amounts and seed from the variables `SOAK_*`."""
    backend = os.environ.get("SOAK_BACKEND", "local")
    amount = Amount(_number("COMMANDS", 20_000), _number("CALLS", 5_000), _number("SCRIPTS", 500))
    soak = Soak(backend, amount, _number("SEED", 1))
    failure = ""
    table = Table(caption=f"{backend}, seed {_number('SEED', 1)}")
    for name in _COLUMNS:
        table.add_column(name, justify="right")
    try:
        for phase in soak.phases():
            table.add_row(*_cells(phase))
            print(" ".join(_cells(phase)), file=sys.stderr, flush=True)
    except SoakError as error:
        failure = str(error)
    console = Console(width=130)
    console.print(table)
    if soak.work:
        console.print(", ".join(f"{name} {count}" for name, count in soak.work.done.most_common()))
    console.print(failure or "nothing has grown, and nothing is left", markup=False)
    sys.exit(bool(failure))


def _number(name: str, default: int) -> int:
    return int(os.environ.get(f"SOAK_{name}", default))


def _cells(phase: Phase) -> list[str]:
    found = phase.figures
    numbers = (
        phase.seconds,
        phase.commands,
        phase.calls,
        phase.scripts,
        found.memory,
        found.threads,
        found.descriptors,
        found.shells,
        found.processes,
        found.scratch,
        found.files,
    )
    return [f"{number:.0f}" for number in numbers]


if __name__ == "__main__":
    main()
