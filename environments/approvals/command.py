"""A simple command as it would run: words after their expansion, redirections, options, and nested commands."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

UNKNOWN = "\ufffc"
"""Placeholder in a word's text for a part known at run time alone, such as a variable that was set elsewhere."""
UNSEEN = "cannot be seen through"
"""Prefix of the reason against text made at run time, harmless or not."""
RUNS_DOWNLOAD = "it runs a download"
"""The reason against running a download as a program or as shell text."""
INPUT = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
"""File names that mean a program's standard input."""
_VERSION = re.compile(r"(python|pypy|perl|ruby|lua|php|node)-?[0-9][0-9.]*")


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text as a set, for tables of names."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class Word:
    """A word after its expansion."""

    text: str
    glob: bool = False
    """True if the word has an unquoted `*`, `?` or `[`."""
    quoted: bool = True
    """False for an unquoted expansion, from which the shell may make several words or none."""
    producers: tuple[Command, ...] = ()
    """The commands whose output is part of the word, or of the file with this name."""

    @property
    def literal(self) -> bool:
        """True if the whole text is known."""
        return UNKNOWN not in self.text


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirection, such as `> file`."""

    operator: str
    target: Word

    @property
    def is_output(self) -> bool:
        """True if the redirection opens a file for writing."""
        duplicates = self.operator == ">&" and (self.target.text.isdigit() or self.target.text == "-")
        return ">" in self.operator and not duplicates


@dataclass(eq=False, slots=True)
class Command:
    """A program and its arguments, without the assignments and redirections written beside them."""

    words: tuple[Word, ...] = ()
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    producers: tuple[Command, ...] = ()
    """The commands whose output is the standard input."""
    stdin_text: str | None = None
    """The standard input if known: a here-document, or the output of `echo`."""
    directory: str = ""
    """The directory after each `cd`, relative to the start of the text; empty for the start itself."""
    start: str = ""
    """The absolute directory at the start of the text; empty if not known."""
    stdout_text: str | None = field(default=None, repr=False)
    """The standard output if known."""
    listed_files: tuple[str, ...] = ()
    """Stand-ins for the file names in the output of `find`, `ls` and the like."""
    nested: tuple[Command, ...] = ()
    """The commands that this command runs, as the wrapper `sudo` does."""
    is_nested: bool = False
    """True if a wrapper such as `sudo` runs the command."""
    is_guess: bool = False
    """True for a command found among the words of an unknown program."""

    name: str = field(init=False)
    """The program without its directory and version; empty for assignments alone, with UNKNOWN if not known."""
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

    def nest(self, words: Sequence[Word], directory: str | None = None) -> Command:
        """Return a nested command with the same standard input.

        Args:
            words: The program and its arguments.
            directory: The working directory; None to keep this command's.
        """
        where = self.directory if directory is None else directory
        return replace(
            self, words=tuple(words), assignments=(), redirects=(), is_nested=True, stdout_text=None, directory=where
        )

    @property
    def line(self) -> str:
        """Program and arguments with a blank between them."""
        return " ".join(word.text for word in self.words)


@dataclass(frozen=True, slots=True)
class Nested:
    """The nested commands and shell texts of a command."""

    commands: tuple[Command, ...] = ()
    texts: tuple[str, ...] = ()
    """Shell texts to read in their turn."""
    reasons: tuple[str, ...] = ()
    """Reasons to ask, such as a nested program made at run time."""
    guesses: tuple[Command, ...] = ()
    """Commands that may be nested."""
    arguments: tuple[Word, ...] | None = None
    """The positional parameters of the texts, from `$0` on; None for those of the surrounding shell."""

    def __add__(self, other: Nested) -> Nested:
        """Return the union of both."""
        arguments = self.arguments if other.arguments is None else other.arguments
        return Nested(
            self.commands + other.commands,
            self.texts + other.texts,
            self.reasons + other.reasons,
            self.guesses + other.guesses,
            arguments,
        )


@dataclass(frozen=True, slots=True)
class Options:
    """The options and operands of a command, told apart as getopt does."""

    letters: frozenset[str]
    """Short options, such as those of `-rf`."""
    names: frozenset[str]
    """Long options, such as `--force` and `--mode=x`, without dashes and values."""
    operands: tuple[Word, ...]
    values: tuple[tuple[str, str], ...] = ()
    """Options with their values, as written."""

    @classmethod
    def of(cls, words: Sequence[Word], valued: Collection[str] = (), *, stop_at_operand: bool = False) -> Options:
        """Parse arguments.

        Args:
            words: The arguments.
            valued: Options followed by a value, with their dashes.
            stop_at_operand: The first operand ends the options, as in front of a nested command.
        """
        letters: set[str] = set()
        names: set[str] = set()
        operands: list[Word] = []
        values: list[tuple[str, str]] = []
        at = 0
        while at < len(words):
            text = words[at].text
            at += 1
            if text == "--" or (stop_at_operand and not _is_option(text)):
                operands += words[at if text == "--" else at - 1 :]
                break
            if not _is_option(text):
                operands.append(words[at - 1])
                continue
            name, equals, value = text.partition("=")
            if text.startswith("--"):
                names.add(name[2:])
            elif name not in valued:
                name, value = _valued_letter(text, valued)
                equals = value
                letters |= set(text[1 : len(text) - len(value)])
            else:
                letters.add(text[1])
            if equals:
                values.append((name, value))
            elif name in valued and at < len(words):
                values.append((name, words[at].text))
                at += 1
        return cls(frozenset(letters), frozenset(names), tuple(operands), tuple(values))

    def has(self, letters: str = "", *names: str) -> bool:
        """Return True if any of the letters or long names is given. A long name may be abbreviated."""
        if not self.letters.isdisjoint(letters):
            return True
        return any(name.startswith(given) for given in self.names if given for name in names)

    def value(self, *options: str) -> str:
        """Return the first value of any of the options; empty without a value."""
        return next((value for option, value in self.values if option in options), "")


def after_dashes(words: Sequence[Word]) -> Sequence[Word]:
    """Return words without a leading `--`."""
    return words[1:] if words and words[0].text == "--" else words


def _is_option(text: str) -> bool:
    return len(text) > 1 and text.startswith("-")


def _valued_letter(text: str, valued: Collection[str]) -> tuple[str, str]:
    """Return the first letter with a value in a cluster such as `-xvf`, and the attached value."""
    for at, letter in enumerate(text[1:], 2):
        if "-" + letter in valued:
            return "-" + letter, text[at:].removeprefix("=")
    return text, ""
