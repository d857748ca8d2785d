"""Reads tables of rules over programs, leading words, options and operands, and holds commands against them.

A line that begins with `=` is the deed of the rows below it: a reason, in which `{}` stands for the operand or for
what is lost by it. A row has up to four columns between `;`:

1. programs; behind a colon the leading words, with `|` between alternatives and `...` before a word that may stand
   among the next five,
2. options of which one is given, with `&` between groups of them; `-o=x` has a value, a word without a dash is an
   argument,
3. options of which none is given,
4. operands: a condition `?name`, a selection of the operands that count, and their class; each may be missing. A class
   is a name, or a pattern behind `~`. A selection is a name, `of=` for operands that begin so, or the options, joined
   by commas, whose values count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import cast

from environments.approvals.command import UNKNOWN, UNSEEN, Command, Word
from environments.approvals.globs import names_of
from environments.approvals.options import Options

Class = Callable[[Word, Command], str | None]
"""Returns what is lost by an operand; None for a harmless one."""
Selection = Callable[[Command, Options, Sequence[Word]], Iterable[Word]]
"""Returns some of the operands behind the leading words."""
Condition = Callable[[Command], bool]

_INTERPRETERS = frozenset(["python", "pypy", "ruby", "php", "node", "perl"])
_SELECTIONS: Mapping[str, Selection] = {
    "all": lambda command, options, operands: operands,
    "first": lambda command, options, operands: operands[:1],
    "last": lambda command, options, operands: operands[-1:],
    "second": lambda command, options, operands: operands[1:],
    "none": lambda command, options, operands: () if operands else (Word(""),),
}


_TRIES = frozenset(["help", "dry-run", "dryrun", "simulate", "just-print"])
"""Options of a program that only tells what it would do; one that does not know them fails."""


def _tries(options: Options) -> bool:
    return not _TRIES.isdisjoint(options.names) and not any(value in ("none", "false") for _, value in options.values)


@dataclass(frozen=True, slots=True)
class _Row:
    deed: str
    words: tuple[tuple[str, ...], ...]
    having: tuple[tuple[str, ...], ...]
    unless: tuple[str, ...]
    condition: Condition | None
    selection: Selection
    of_class: Class | None


class Table:
    """Rows by program.

    Args:
        rules: The rows.
        valued: Lines of programs, a colon, and their options that are followed by a value.
        names: The functions and patterns that the rows name.
    """

    def __init__(
        self, rules: str, valued: str = "", names: Mapping[str, Class | Selection | Condition | str] | None = None
    ) -> None:
        self._rows: dict[str, list[_Row]] = {}
        self._valued: dict[str, tuple[str, ...]] = {}
        for line in valued.strip().splitlines():
            programs, _, options = line.partition(":")
            self._valued.update(dict.fromkeys(programs.split(), tuple(options.split())))
        deed = ""
        for line in filter(None, map(str.strip, rules.splitlines())):
            if line.startswith("= "):
                deed = line[2:]
                continue
            columns = [*map(str.strip, line.split(";")), "", "", ""]
            programs, _, words = columns[0].partition(":")
            row = _row(deed, words, columns[1], columns[2], columns[3].split(), names or {})
            for program in programs.split():
                self._rows.setdefault(program, []).append(row)
        self.programs = frozenset(self._rows)
        """All programs that have a row."""
        self.plain = frozenset(name for name, rows in self._rows.items() if not any(row.words for row in rows))
        """Those without subcommands."""
        self.bare = frozenset(name for name, rows in self._rows.items() if any(map(_is_bare, rows)))
        """Those that need no argument."""

    def reason(self, command: Command) -> str | None:
        """Return the deed of the first row that fits a command; None if none does."""
        for name, args in self._programs(command):
            options = Options.of(args, self._valued.get(name, ()))
            if _tries(options) or ("version" in options.names and not options.operands):
                continue
            for row in self._rows[name]:
                operands = _behind(row.words, options.operands)
                if operands is not None and (reason := _fits(row, command, options, operands)):
                    return reason
        return None

    def _programs(self, command: Command) -> Iterator[tuple[str, Sequence[Word]]]:
        """Return the programs of the table that a command may be, with their arguments.

        That is also a script or a module that an interpreter is given: `python -m pip`, `python manage.py`.
        """
        name = command.name
        if name in self._rows:
            yield name, command.args
        if not (name in _INTERPRETERS or (command.words and _may_be_another(command.words[0]))):
            return
        for one in names_of(command, self._rows):
            known = "mkfs" if one.startswith("mkfs.") else one.removesuffix(".exe")
            if known in self._rows and known != name:
                yield known, command.args
        if command.words[0].text.startswith(("/etc/init.d/", "/etc/rc.d/")) and "service" in self._rows:
            yield "service", (Word(name), *command.args)
        if name in _INTERPRETERS:
            options = Options.of(command.args, ("-m", "-W", "-X", "-c", "-e", "-r", "-d"), first_ends=True)
            module = options.value("-m")
            script = module or (options.operands[0].text.rpartition("/")[2] if options.operands else "")
            if script in self._rows:
                yield script, options.operands if module else options.operands[1:]


def _may_be_another(program: Word) -> bool:
    return program.glob or "." in program.text


def _is_bare(row: _Row) -> bool:
    return not (row.words or row.having or row.condition or row.of_class)


def _row(
    deed: str,
    words: str,
    having: str,
    unless: str,
    operands: list[str],
    names: Mapping[str, Class | Selection | Condition | str],
) -> _Row:
    condition: Condition | None = None
    selection: Selection = _SELECTIONS["all"]
    of_class: Class | None = None
    for part in operands:
        if part.startswith("?"):
            condition = cast(Condition, names[part[1:]])
        elif part.startswith("~"):
            of_class = _pattern(part[1:])
        elif part.endswith("="):
            selection = _beginning(part)
        elif part.startswith("-"):
            selection = _values_of(tuple(part.split(",")))
        elif part.startswith("@"):
            selection = cast(Selection, names[part[1:]])
        elif part in _SELECTIONS:
            selection = _SELECTIONS[part]
        else:
            named = names[part]
            of_class = _pattern(named) if isinstance(named, str) else cast(Class, named)
    groups = tuple(tuple(group.split()) for group in having.split("&")) if having else ()
    alternatives = tuple(tuple(str(names.get(word, word)).split("|")) for word in words.split())
    return _Row(deed, alternatives, groups, tuple(unless.split()), condition, selection, of_class)


def _pattern(text: str) -> Class:
    pattern = re.compile(text, re.DOTALL)
    return lambda word, command: word.text if pattern.fullmatch(word.text) else None


def _beginning(sign: str) -> Selection:
    return lambda command, options, operands: (
        Word(word.text.removeprefix(sign), word.glob, word.quoted) for word in operands if word.text.startswith(sign)
    )


def _values_of(names: tuple[str, ...]) -> Selection:
    return lambda command, options, operands: (Word(text) for name, text in options.values if name in names)


def _behind(words: tuple[tuple[str, ...], ...], operands: Sequence[Word]) -> Sequence[Word] | None:
    """Return the operands behind leading words; None if those are others."""
    for at, names in enumerate(words):
        if names == ("...",):
            left = range(at, min(len(operands), at + 5))
            found = (one for one in left if _is_one(operands[one].text, words[at + 1]))
            return next((operands[one + 1 :] for one in found), None)
        if at >= len(operands) or not _is_one(operands[at].text, names):
            return None
    return operands[len(words) :]


def _is_one(text: str, names: tuple[str, ...]) -> bool:
    return text in names or any("*" in name and fnmatchcase(text, name) for name in names)


def _fits(row: _Row, command: Command, options: Options, operands: Sequence[Word]) -> str | None:
    if any(_given(option, options, command) for option in row.unless):
        return None
    if not all(any(_given(option, options, command) for option in group) for group in row.having):
        # An expansion without quotes may be the options that are missing, and then is no operand.
        left = [word for word in operands if word.quoted or not word.text.startswith(UNKNOWN)]
        if row.of_class is None or len(left) == len(operands):
            return None
        operands = left
    if row.condition and not row.condition(command):
        return None
    if row.of_class is None:
        return row.deed.format(command.name)
    for word in row.selection(command, options, operands):
        lost = row.of_class(word, command)
        if lost is not None:
            return lost if lost.startswith(UNSEEN) else row.deed.format(lost.replace(UNKNOWN, "..."))
    return None


def _given(option: str, options: Options, command: Command) -> bool:
    """Return True if an option, or an argument without a dash, is given, in any spelling."""
    kind, name, value = _split(option)
    if kind == "valued":
        return any(one == name and fnmatchcase(text.lower(), value) for one, text in options.values)
    if kind == "long":
        return any(given and (name.startswith(given) or _is_one(given, (name,))) for given in options.names)
    if kind == "letter":
        return name in options.letters or UNKNOWN in options.letters
    return any(_is_one(text, (name,)) for text in command.texts)


@cache
def _split(option: str) -> tuple[str, str, str]:
    """Return the kind of an option of a table, its name, and the pattern of its value."""
    if option.startswith("-") and "=" in option:
        name, _, value = option.partition("=")
        return "valued", name, value
    if option.startswith("--"):
        return "long", option[2:], ""
    return ("letter", option[1], "") if option.startswith("-") and len(option) == 2 else ("argument", option, "")
