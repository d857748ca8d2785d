"""Tables of policy rules over programs, leading words, options and operands, and their match with commands.

A line with `=` in front is the reason for the rows below. `{}` in a reason stands for the operand or for the loss. A
row has up to four columns, separated by `;`:

1. programs; behind a colon the leading words, with `|` between alternatives, and `...` in front of a word that may be
   among the next five,
2. required options, at least a single option of each group, with `&` between groups; `-o=x` is an option with a value,
   a word without a dash is an argument,
3. excluded options,
4. operands: a condition `?name`, a selection of operands, and a classifier; each is optional. A classifier is a name,
   or a regular expression behind `~`. A selection is a name, a prefix such as `of=`, or options joined by commas, whose
   values are selected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import cast

from environments.approvals.command import UNKNOWN, UNSEEN, Command, Options, Word
from environments.approvals.globs import possible_programs

Class = Callable[[Word, Command], str | None]
"""Returns the loss by an operand; None for a harmless operand."""
Selection = Callable[[Command, Options, Sequence[Word]], Iterable[Word]]
"""Selects from the operands behind the leading words."""
Condition = Callable[[Command], bool]

_INTERPRETERS = frozenset(["python", "pypy", "ruby", "php", "node", "perl"])
_SELECTIONS: Mapping[str, Selection] = {
    "all": lambda command, options, operands: operands,
    "first": lambda command, options, operands: operands[:1],
    "last": lambda command, options, operands: operands[-1:],
    "second": lambda command, options, operands: operands[1:],
    "none": lambda command, options, operands: () if operands else (Word(""),),
}


_DRY_RUN = frozenset(["help", "dry-run", "dryrun", "simulate", "just-print"])
"""Options of a dry run. A program without such an option fails."""


def _is_dry_run(options: Options) -> bool:
    return not _DRY_RUN.isdisjoint(options.names) and not any(value in ("none", "false") for _, value in options.values)


@dataclass(frozen=True, slots=True)
class _Row:
    reason: str
    words: tuple[tuple[str, ...], ...]
    required: tuple[tuple[str, ...], ...]
    excluded: tuple[str, ...]
    condition: Condition | None
    selection: Selection
    classifier: Class | None


class Table:
    """Rows by program.

    Args:
        rules: The rows.
        valued: Lines of programs, a colon, and their options with a value.
        names: The functions and regular expressions named in the rows.
    """

    def __init__(
        self, rules: str, valued: str = "", names: Mapping[str, Class | Selection | Condition | str] | None = None
    ) -> None:
        self._rows: dict[str, list[_Row]] = {}
        self._valued: dict[str, tuple[str, ...]] = {}
        for line in valued.strip().splitlines():
            programs, _, options = line.partition(":")
            self._valued.update(dict.fromkeys(programs.split(), tuple(options.split())))
        reason = ""
        for line in filter(None, map(str.strip, rules.splitlines())):
            if line.startswith("= "):
                reason = line[2:]
                continue
            columns = [*map(str.strip, line.split(";")), "", "", ""]
            programs, _, words = columns[0].partition(":")
            row = _row(reason, words, columns[1], columns[2], columns[3].split(), names or {})
            for program in programs.split():
                self._rows.setdefault(program, []).append(row)
        self.programs = frozenset(self._rows)
        """All programs with a row."""
        self.plain = frozenset(name for name, rows in self._rows.items() if not any(row.words for row in rows))
        """The programs without subcommands."""
        self.bare = frozenset(name for name, rows in self._rows.items() if any(map(_is_bare, rows)))
        """The programs whose row needs no argument."""

    def reason(self, command: Command) -> str | None:
        """Return the reason of the first row that matches a command; None without a match."""
        for name, args in self._programs(command):
            options = Options.of(args, self._valued.get(name, ()))
            if _is_dry_run(options) or ("version" in options.names and not options.operands):
                continue
            for row in self._rows[name]:
                operands = _after_words(row.words, options.operands)
                if operands is not None and (reason := _fits(row, command, options, operands)):
                    return reason
        return None

    def _programs(self, command: Command) -> Iterator[tuple[str, Sequence[Word]]]:
        """Return the possible programs of a command in the table, with their arguments.

        An interpreter's script or module counts too: `python -m pip`, `python manage.py`.
        """
        name = command.name
        if name in self._rows:
            yield name, command.args
        if not (name in _INTERPRETERS or (command.words and _may_be_another(command.words[0]))):
            return
        for one in possible_programs(command, self._rows):
            known = "mkfs" if one.startswith("mkfs.") else one.removesuffix(".exe")
            if known in self._rows and known != name:
                yield known, command.args
        if command.words[0].text.startswith(("/etc/init.d/", "/etc/rc.d/")) and "service" in self._rows:
            yield "service", (Word(name), *command.args)
        if name in _INTERPRETERS:
            options = Options.of(command.args, ("-m", "-W", "-X", "-c", "-e", "-r", "-d"), stop_at_operand=True)
            module = options.value("-m")
            script = module or (options.operands[0].text.rpartition("/")[2] if options.operands else "")
            if script in self._rows:
                yield script, options.operands if module else options.operands[1:]


def _may_be_another(program: Word) -> bool:
    return program.glob or "." in program.text


def _is_bare(row: _Row) -> bool:
    return not (row.words or row.required or row.condition or row.classifier)


def _row(
    reason: str,
    words: str,
    required: str,
    excluded: str,
    operands: list[str],
    names: Mapping[str, Class | Selection | Condition | str],
) -> _Row:
    condition: Condition | None = None
    selection: Selection = _SELECTIONS["all"]
    classifier: Class | None = None
    for part in operands:
        if part.startswith("?"):
            condition = cast(Condition, names[part[1:]])
        elif part.startswith("~"):
            classifier = _pattern(part[1:])
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
            classifier = _pattern(named) if isinstance(named, str) else cast(Class, named)
    groups = tuple(tuple(group.split()) for group in required.split("&")) if required else ()
    alternatives = tuple(tuple(str(names.get(word, word)).split("|")) for word in words.split())
    return _Row(reason, alternatives, groups, tuple(excluded.split()), condition, selection, classifier)


def _pattern(text: str) -> Class:
    pattern = re.compile(text, re.DOTALL)
    return lambda word, command: word.text if pattern.fullmatch(word.text) else None


def _beginning(sign: str) -> Selection:
    return lambda command, options, operands: (
        Word(word.text.removeprefix(sign), word.glob, word.quoted) for word in operands if word.text.startswith(sign)
    )


def _values_of(names: tuple[str, ...]) -> Selection:
    return lambda command, options, operands: (Word(text) for name, text in options.values if name in names)


def _after_words(words: tuple[tuple[str, ...], ...], operands: Sequence[Word]) -> Sequence[Word] | None:
    """Return the operands behind leading words; None if the leading words differ."""
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
    if any(_given(option, options, command) for option in row.excluded):
        return None
    if not all(any(_given(option, options, command) for option in group) for group in row.required):
        # An unquoted expansion may be the missing options, and then is no operand.
        left = [word for word in operands if word.quoted or not word.text.startswith(UNKNOWN)]
        if row.classifier is None or len(left) == len(operands):
            return None
        operands = left
    if row.condition and not row.condition(command):
        return None
    if row.classifier is None:
        return row.reason.format(command.name)
    for word in row.selection(command, options, operands):
        lost = row.classifier(word, command)
        if lost is not None:
            return lost if lost.startswith(UNSEEN) else row.reason.format(lost.replace(UNKNOWN, "..."))
    return None


def _given(option: str, options: Options, command: Command) -> bool:
    """Return True if an option, or an argument without a dash, is present in any spelling."""
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
    """Return the kind of an option in a table, its name, and the glob of its value."""
    if option.startswith("-") and "=" in option:
        name, _, value = option.partition("=")
        return "valued", name, value
    if option.startswith("--"):
        return "long", option[2:], ""
    return ("letter", option[1], "") if option.startswith("-") and len(option) == 2 else ("argument", option, "")
