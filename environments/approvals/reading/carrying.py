"""What any command runs in its turn."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from fnmatch import fnmatchcase

from environments.approvals.reading.carried import NOTHING, UNSEEN, Carried, inner
from environments.approvals.reading.command import UNKNOWN, Command
from environments.approvals.reading.fronts import FRONTS, behind
from environments.approvals.reading.programs import LANGUAGES, run_by_program
from environments.approvals.reading.shells import RUNNERS, run_as_text

_CARRIERS = FRONTS | RUNNERS | LANGUAGES
_LONGEST_NAME = 64


def carried_by(command: Command) -> Carried:
    """Return what a command runs in its turn."""
    if not command.name:
        return NOTHING
    if UNKNOWN in command.name:
        return _named_while_it_runs(command)
    all_carried = [
        carried
        for name in names_of(command, _CARRIERS)
        for carried in (run_as_text(command, name), run_by_program(command, name), behind(command, name))
        if carried is not NOTHING
    ]
    if len(all_carried) == 1:
        return all_carried[0]
    return Carried(
        tuple(one for carried in all_carried for one in carried.commands),
        tuple(text for carried in all_carried for text in carried.texts),
        next((carried.unseen for carried in all_carried if carried.unseen), ""),
    )


def names_of(command: Command, known: Collection[str]) -> tuple[str, ...]:
    """Return the programs that a command may be: mostly its name; of a pattern such as `r?`, all known that fit."""
    name = command.name
    if not command.words[0].glob:
        return (name,)
    if len(name) > _LONGEST_NAME:
        return ()
    return tuple(one for one in sorted(known) if fnmatchcase(one, name)) if name.strip("*?[]") else ("rm",)


def _named_while_it_runs(command: Command) -> Carried:
    """Judge a program whose name is not known, or not all of it, as what it is when the unknown part is empty."""
    first = command.words[0]
    known = command.name.replace(UNKNOWN, "")
    if known:
        return inner(command, (replace(first, text=known), *command.args))
    rest = inner(command, command.args)
    return replace(rest, unseen=f"{UNSEEN}: what names its program is made while it runs")
