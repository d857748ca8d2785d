"""A simple command as it would run, as far as that can be told without running it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

UNKNOWN = "\ufffc"
"""Stands in a word's text for a part made while it runs, such as the value of a variable that was set elsewhere."""
UNSEEN = "cannot be seen through"
"""Begins the reason against text that may be harmless or not, as it is made while it runs."""
RUNS_DOWNLOAD = "it runs what it downloads"
"""The reason against a program or a text that comes from elsewhere."""
INPUT = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
"""Names by which a program reads its input as a file."""
_VERSION = re.compile(r"(python|pypy|perl|ruby|lua|php|node)-?[0-9][0-9.]*")


@dataclass(frozen=True, slots=True)
class Word:
    """A word after its expansion."""

    text: str
    glob: bool = False
    """True if an unquoted `*`, `?` or `[` stands in it."""
    quoted: bool = True
    """False if an unquoted expansion stands in it, so that it may become several words, or none."""
    fed_by: tuple[Command, ...] = ()
    """The commands whose output stands in it, or in the file that it names."""

    @property
    def literal(self) -> bool:
        """True if no part of it is made while it runs."""
        return UNKNOWN not in self.text


@dataclass(frozen=True, slots=True)
class Redirect:
    """`> file` and the like."""

    operator: str
    target: Word

    @property
    def writes(self) -> bool:
        """Whether it opens a file for writing."""
        duplicates = self.operator == ">&" and (self.target.text.isdigit() or self.target.text == "-")
        return ">" in self.operator and not duplicates


@dataclass(eq=False, slots=True)
class Command:
    """A program and its arguments, without the assignments and redirections that were written with them."""

    words: tuple[Word, ...] = ()
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    fed_by: tuple[Command, ...] = ()
    """The commands whose output it reads."""
    given: str | None = None
    """What it reads, where that is known: a here-document, or what is echoed into it."""
    directory: str = ""
    """Where it runs, as far as a `cd` before it tells: empty where everything begins."""
    start: str = ""
    """The absolute directory where everything begins; empty if not known."""
    prints: str | None = field(default=None, repr=False)
    """What it prints, where that is known."""
    lists: tuple[str, ...] = ()
    """Names that stand for the files it lists, if it does."""
    carries: tuple[Command, ...] = ()
    """The commands that it runs, as sudo does."""
    carried: bool = False
    """Whether another command runs it, as sudo does."""
    guessed: bool = False
    """True if it may be no command: it stands in the words of a program that no table knows."""

    name: str = field(init=False)
    """The program without its directory and version; empty for assignments alone, UNKNOWN in it if not known."""
    texts: tuple[str, ...] = field(init=False)
    """The arguments as text."""

    def __post_init__(self) -> None:
        texts = [word.text for word in self.words]
        name = posixpath.basename(texts[0].rstrip("/")) if texts else ""
        found = _VERSION.fullmatch(name)
        self.name = found[1] if found else name
        self.texts = tuple(texts[1:])

    @property
    def args(self) -> tuple[Word, ...]:
        """The words behind the program."""
        return self.words[1:]

    def running(self, words: Sequence[Word], directory: str | None = None) -> Command:
        """Return other words as a command that this one runs, which reads what this one would read.

        Args:
            words: The program and its arguments.
            directory: Where it runs; None for where this one does.
        """
        where = self.directory if directory is None else directory
        return replace(
            self, words=tuple(words), assignments=(), redirects=(), carried=True, prints=None, directory=where
        )

    @property
    def line(self) -> str:
        """Program and arguments with a blank between them."""
        return " ".join(word.text for word in self.words)


@dataclass(frozen=True, slots=True)
class Runs:
    """Commands that a command runs in its turn."""

    commands: tuple[Command, ...] = ()
    texts: tuple[str, ...] = ()
    """Shell texts that are read in their turn."""
    reasons: tuple[str, ...] = ()
    """Reasons to ask about it, as what it runs is made while it runs."""
    guesses: tuple[Command, ...] = ()
    """Commands that it may run."""
    arguments: tuple[Word, ...] | None = None
    """The positional parameters of its texts, from `$0` on; None for those of the shell that runs it."""

    def __add__(self, other: Runs) -> Runs:
        """Return what both of them run."""
        arguments = self.arguments if other.arguments is None else other.arguments
        return Runs(
            self.commands + other.commands,
            self.texts + other.texts,
            self.reasons + other.reasons,
            self.guesses + other.guesses,
            arguments,
        )
