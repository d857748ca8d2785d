"""What any command runs in its turn."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from environments.approvals import languages
from environments.approvals.command import UNKNOWN, UNSEEN, Command, Word
from environments.approvals.reading.carried import NOTHING, Carried, Text, inner
from environments.approvals.reading.fronts import FRONTS, behind
from environments.approvals.reading.globs import is_pattern, may_be
from environments.approvals.reading.shells import RUNNERS, output_as_text, run_as_text

_CARRIERS = FRONTS | RUNNERS
_LIKELY = ("rm", "dd", "chmod", "git", "kill", "sh", "psql", "find")
"""What a program may be whose name cannot be known. Words that are destructive behind one of them are so here."""


def carried_by(command: Command) -> Carried:
    """Return what a command runs in its turn."""
    if not command.name:
        prompts = (value.text for name, value in command.assignments if name == "PROMPT_COMMAND")
        return Carried(texts=tuple(Text(prompt) for prompt in prompts))
    if command.words[0].fed_by and "/" in command.words[0].text and UNKNOWN not in command.words[0].text:
        return output_as_text(command.words[0].fed_by)
    if UNKNOWN in command.name:
        return _named_while_it_runs(command)
    all_carried = [
        carried
        for name in names_of(command, _CARRIERS)
        for carried in (run_as_text(command, name), behind(command, name))
        if carried is not NOTHING
    ]
    in_language = languages.runs(command)
    if in_language.commands or in_language.texts or in_language.reasons:
        texts = tuple(Text(text) for text in in_language.texts)
        all_carried.append(Carried(in_language.commands, texts, "; ".join(in_language.reasons)))
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
    if not (command.words[0].glob and is_pattern(name)):
        return (name,)
    return tuple(may_be(name, known)) if name.strip("*?[]") else ("rm",)


def _named_while_it_runs(command: Command) -> Carried:
    """Judge a program whose name is not known, or not all of it, as what it is when the unknown part is empty."""
    first = command.words[0]
    known = command.name.replace(UNKNOWN, "")
    if known:
        return inner(command, (replace(first, text=known), *command.args))
    runs = [inner(command, command.args)]
    runs += [inner(command, (Word(name), *command.args)) for name in _LIKELY if command.args]
    smells = any(fed.smells for fed in first.fed_by)
    unseen = f"{UNSEEN}: what names its program is made while it runs" if smells or not command.args else ""
    return Carried(tuple(one for run in runs for one in run.commands), unseen=unseen)
