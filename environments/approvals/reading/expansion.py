"""Words as they are after their expansion."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from environments.approvals.command import UNKNOWN, Command, Word
from environments.approvals.reading.braces import expanded_braces
from environments.approvals.reading.budget import Budget
from environments.approvals.reading.tokens import GLOB, Literal, RawWord, Substitution, Token, Variable
from environments.approvals.reading.variables import Value, Variables

_BLANK = re.compile(r"[ \t\n]+")
_DEFAULTING = ("-", "=", "?")


class Walk(Protocol):
    """Reads the tokens of a substitution, and returns the commands in it."""

    def __call__(self, tokens: list[Token]) -> tuple[Command, ...]:
        """Read them where things stand."""


class Expansion:
    """Expands words, and has the commands in them read.

    Args:
        variables: Gives what is known of variables here and now.
        walk: Reads a substitution.
        budget: What it is spent from.
    """

    def __init__(self, variables: Callable[[], Variables], walk: Walk, budget: Budget) -> None:
        self._variables = variables
        self._walk = walk
        self._budget = budget

    def words(self, raw: RawWord) -> list[Word]:
        """Return the words that one becomes; none for a variable that is empty."""
        return [word for one in expanded_braces(raw, self._budget) for word in self._split(one)]

    def text(self, raw: RawWord) -> Word:
        """Return a word that is not split, such as a value or the target of a redirection."""
        words = self._split(raw, splits=False)
        return words[0] if words else Word("")

    def _split(self, raw: RawWord, *, splits: bool = True) -> list[Word]:
        building = _Building()
        for number, part in enumerate(raw.parts):
            if isinstance(part, Literal):
                if number == 0 and part.quoted and part.text.startswith("~"):
                    building.add("./")  # which keeps it from being the home
                building.add(part.text, exists=True, glob=not part.quoted and not GLOB.isdisjoint(part.text))
            elif isinstance(part, Variable):
                value = self._value(part)
                building.add_value(
                    value, splits=splits and (not part.quoted or value.splits), separators=self._separators()
                )
            else:
                self._add_output(building, part, splits)
        words = building.finished()
        self._budget.spend(sum(len(word.text) for word in words))
        return words

    def _add_output(self, building: _Building, part: Substitution, splits: bool) -> None:
        if part.kind == "1":
            expression, *instead = part.tokens
            if isinstance(expression, RawWord):
                self.text(expression)
            self._walk(instead)
            building.add("1", exists=True)
            return
        commands = self._walk(part.tokens)
        building.fed_by += commands
        if part.kind in "<>":
            building.add("/dev/fd/63", exists=True)
            return
        prints = printed_by(commands)
        value = Value((UNKNOWN if prints is None else prints.rstrip("\n"),))
        building.add_value(value, splits=splits and not part.quoted, separators=self._separators(), exists=part.quoted)

    def _separators(self) -> re.Pattern[str]:
        """Return what words are split at: what the text has set IFS to, or blanks."""
        value = self._variables().get("IFS")
        signs = value.text[:16] if value else ""
        return _BLANK if not signs.strip(" \t\n") else re.compile(f"[{re.escape(signs)} \t\n]+")

    def _value(self, part: Variable) -> Value:
        name = part.name.lstrip("!#") or part.name
        operand = self.text(part.operand) if part.operand and part.operand.parts else Word("")
        if name != part.name and part.name.startswith("#"):
            return Value(("1",))
        value = None if name != part.name else self._variables().get(name, part.index)
        operator = part.operator.removeprefix(":")
        if operator == "+":
            return Value((operand.text,))
        if part.operator and operator not in _DEFAULTING:
            return Value((UNKNOWN,))
        if value is None or (value.text in ("", UNKNOWN) and part.operator):
            return Value((operand.text or UNKNOWN,) if part.operator else (UNKNOWN,))
        return value


class _Building:
    """The words that one is becoming."""

    def __init__(self) -> None:
        self.fed_by: tuple[Command, ...] = ()
        self._words: list[Word] = []
        self._text: list[str] = []
        self._exists = self._glob = False

    def add(self, text: str, *, exists: bool = False, glob: bool = False) -> None:
        """Add to the current word, which from then on `exists` though it may be empty."""
        self._text.append(text)
        self._exists |= exists or bool(text)
        self._glob |= glob

    def add_value(self, value: Value, *, splits: bool, separators: re.Pattern[str], exists: bool = True) -> None:
        """Add a value, at whose separators the word is split."""
        if not splits:
            self.add(value.text, exists=exists)
            return
        for number, piece in enumerate(separators.split(value.text)):
            if number:
                self._end_word()
            self.add(piece, glob=not GLOB.isdisjoint(piece))

    def _end_word(self) -> None:
        if self._exists:
            self._words.append(Word("".join(self._text), self._glob, fed_by=self.fed_by))
        self._text, self._exists, self._glob, self.fed_by = [], False, False, ()

    def finished(self) -> list[Word]:
        """Return all words."""
        self._end_word()
        return self._words


def printed_by(commands: tuple[Command, ...]) -> str | None:
    """Return what commands print one after the other; None where that is not known."""
    texts = []
    for command in commands:
        if command.prints is None:
            return None
        texts.append(command.prints)
    return "".join(texts)
