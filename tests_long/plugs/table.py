"""The table of docs/plugs.md."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from plugs.frameworks import FRAMEWORKS
from plugs.places import PLACES
from plugs.running import Outcome

DOCUMENT = Path(__file__).parents[2] / "docs" / "plugs.md"
_HEADS = {
    "local": "local",
    "docker": "Docker, root",
    "docker user": "Docker, uid 1000",
    "ssh": "SSH",
    "singularity": "Singularity",
}
_TABLE = re.compile(r"(<!-- table: plugs -->\n)(?:\|.*\n)*")


def table(outcomes: Iterable[Outcome]) -> str:
    """Return the table of what passed, with a line for each suite that was run."""
    found = {(outcome.framework, outcome.place): outcome for outcome in outcomes}
    heads = ["framework", "its tests", *(_HEADS[place] for place in PLACES), "its own backends"]
    lines = [heads, ["---"] * len(heads)]
    for framework in FRAMEWORKS:
        for file, what in framework.suites:
            ours = [_numbers(found.get((framework.version, place)), file) for place in PLACES]
            own = {name: _numbers(found.get((framework.version, f"own {name}")), file) for name in framework.own}
            said = ", ".join(f"{name} {numbers}" for name, numbers in own.items() if numbers)
            if said or any(ours):
                lines.append([framework.version, what, *ours, said])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _numbers(outcome: Outcome | None, file: str) -> str:
    passed, there_are = outcome.counted(file) if outcome else (0, 0)
    return f"{passed}/{there_are}" if there_are else ""


def write(text: str) -> None:
    """Put the table into the document, in place of the one that is there."""
    DOCUMENT.write_text(_TABLE.sub(lambda match: match[1] + text, DOCUMENT.read_text()))
