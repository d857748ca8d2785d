"""What a command may run in its turn: another command, or a text."""

from __future__ import annotations

from dataclasses import dataclass, replace

from environments.approvals.command import Command, Word


@dataclass(frozen=True, slots=True)
class Text:
    """Shell text that a command runs."""

    text: str
    is_input: bool = False
    """Whether it is what the command reads, so that what it runs has nothing to read."""
    stays: bool = False
    """Whether it runs in the same shell."""
    is_guess: bool = False
    """Whether it may be no shell text at all."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What one command runs."""

    commands: tuple[Command, ...] = ()
    texts: tuple[Text, ...] = ()
    unseen: str = ""
    """Why it cannot be told what it runs."""

    @property
    def size(self) -> int:
        """How many characters there are to read."""
        return sum(len(command.line) for command in self.commands) + sum(len(text.text) for text in self.texts)


NOTHING = Carried()


def inner(command: Command, words: tuple[Word, ...]) -> Carried:
    """Return what runs where a command runs other words, reading what it would read."""
    if not words:
        return NOTHING
    return Carried((replace(command, words=words, assignments=(), redirects=(), carried=True, prints=None),))
