"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from environments.approvals.command import Command

Rule = Callable[[Command], str | None]
"""Returns what is destructive about a command of a program; None when nothing is."""
Rules = Mapping[str, Rule]


def always(reason: str, *, but: tuple[str, ...] = ()) -> Rule:
    """Return a rule that holds for every command of a program, but for those with one of some arguments."""
    harmless = {"--help", "--version", *but}

    def rule(command: Command) -> str | None:
        return reason if harmless.isdisjoint(command.texts) else None

    return rule


def with_word(reason: str, *words: str) -> Rule:
    """Return a rule for commands with one of some words among their arguments."""
    harmful = frozenset(words)

    def rule(command: Command) -> str | None:
        return None if harmful.isdisjoint(command.texts) else reason

    return rule
