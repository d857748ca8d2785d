"""The table of the frameworks' own tests in README.md beside this file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from plugs.frameworks import FRAMEWORKS
from plugs.places import PLACES
from plugs.running import Outcome

DOCUMENT = Path(__file__).with_name("README.md")
_HEADS = {
    "local": "local",
    "docker": "Docker, root",
    "docker user": "Docker, uid 1000",
    "ssh": "SSH",
    "singularity": "Singularity",
}
_TABLE = re.compile(r"(<!-- table: plugs -->\n)(?:\|.*\n)*")


def table(outcomes: Iterable[Outcome]) -> str:
    """Return the table of passed tests: a line for each suite, with the newest release."""
    found = {(it.framework, it.place): it for it in outcomes if it.release == "newest"}
    heads = ["framework", "its tests", *(_HEADS[place] for place in PLACES), "its own backends"]
    lines = [heads, ["---"] * len(heads)]
    for framework in FRAMEWORKS:
        for file, what in framework.suites:
            ended = {place: outcome for (name, place), outcome in found.items() if name == framework.name}
            numbers = {place: _numbers(outcome, file) for place, outcome in ended.items()}
            own = ", ".join(f"{name} {theirs}" for name in framework.own if (theirs := numbers.get(f"own {name}")))
            if any(numbers.values()):
                version = next(iter(ended.values())).version
                lines.append(
                    [f"{framework.package} {version}", what, *(numbers.get(place, "") for place in PLACES), own]
                )
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _numbers(outcome: Outcome, file: str) -> str:
    passed, there_are = outcome.counted(file)
    return f"{passed}/{there_are}" if there_are else ""


def write(text: str) -> None:
    """Replace the table in the document."""
    DOCUMENT.write_text(_TABLE.sub(lambda match: match[1] + text, DOCUMENT.read_text()))
