"""Variables, functions, files and the directory, as far as the text that is read sets them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from environments.approvals.bounds import MAX_VALUE
from environments.approvals.command import UNKNOWN, UNSEEN, Command, Word
from environments.approvals.options import Options
from environments.approvals.outputs import Flow, files_written
from environments.approvals.runners import joined

if TYPE_CHECKING:
    from tree_sitter import Node

Array = tuple[Word, ...]
"""The elements of an array, of which a plain variable has one."""
Variables = dict[str, tuple[Array, ...]]
"""Variables with their values: several where branches or the turns of a loop differ."""
UNKNOWN_VALUE: Array = (Word(UNKNOWN, quoted=False),)
_DIRECTORY, _PREVIOUS = "./", "-/"
"""Variables of ours for the directory and the one before."""
_MAX_VALUES = 64
_NAME = re.compile(r"[A-Za-z_]\w*")
_WORD = re.compile(r"\w+")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[([^\]]*)\])?(\+?)=(.*)", re.DOTALL)
_SUBSCRIPT = re.compile(r"\w\[[^\]]*(?:\$\(|`)")
"""A subscript with a substitution, which is evaluated wherever the shell takes the value for a number or a name."""
_DECLARING = frozenset({"export", "declare", "local", "typeset", "readonly"})
_READING = frozenset({"read", "mapfile", "readarray", "getopts", "unset", "let", "printf"})
_COMMAND_TABLES = frozenset({"BASH_ALIASES", "BASH_CMDS", "BASH_ENV", "CDPATH"})
"""Variables that change the meaning of later commands."""

_PLAIN_VALUES = """
HOME=~ PWD=. TMPDIR=/tmp USER=user LOGNAME=user SHELL=sh BASH=bash PYTHON=python CC=cc CXX=c++ MAKE=make EDITOR=vi
PAGER=less ?=0 -= 0=sh BASH_SOURCE=sh UID=1 EUID=1 RANDOM=1 SECONDS=1 LINENO=1 $=4321 !=4321 PPID=4321 BASHPID=4321
"""
KNOWN = {"IFS": " ", **dict(one.split("=") for one in _PLAIN_VALUES.split())}
"""Variables whose value is known, or does no harm, where the text has not set them."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function that the text defines."""

    name: str
    body: Node
    source: bytes
    """The text in which the body stands."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """`name=value`, or `name=(values)`."""

    name: str
    value: Array
    element: bool = False
    """Whether it sets elements of an array, which are not followed one by one."""
    adds: bool = False
    array: bool = False

    @property
    def text(self) -> str:
        """The assignment as one word."""
        return f"{self.name}{'[0]' if self.element else ''}{'+' * self.adds}={one_word(self.value).text}"


def one_word(value: Array) -> Word:
    """Return the elements of an array as one word."""
    return value[0] if len(value) == 1 else Word(" ".join(word.text for word in value))


def _texts(values: tuple[Array, ...]) -> list[list[str]]:
    return [[word.text for word in value] for value in values]


def _different(values: tuple[Array, ...]) -> tuple[Array, ...]:
    """Return values without those of the same text; UNKNOWN alone if one of several is, or if they are too many."""
    different: dict[tuple[str, ...], Array] = {}
    for value in values:
        different.setdefault(tuple(word.text for word in value), value)
    words = [word for value in different.values() for word in value]
    if len(different) > _MAX_VALUES or (len(different) > 1 and any(not word.literal for word in words)):
        return ((Word(UNKNOWN, quoted=False, fed_by=tuple(fed for word in words for fed in word.fed_by)),),)
    return tuple(different.values())


class State:
    """What the commands so far have set."""

    def __init__(self) -> None:
        self.variables: Variables = {}
        self.functions: dict[str, Function] = {}
        self.aliases: set[str] = set()
        self.findings: list[str] = []
        self.unread = ""
        self.has_used_unset = False
        """True once a variable that nothing had set was used."""
        self.source = b""
        """The text that is read now."""
        self._opaque: set[str] = set()
        """Variables that have several names, or change the case of values, which are always UNKNOWN."""
        self._several: set[str] = set()
        """Variables that have had several values at once."""
        self._files: dict[str, Flow] = {}
        """The commands that have written a file."""
        self._links: dict[str, str] = {}
        self._branching = 0

    @contextmanager
    def within(self, source: bytes) -> Iterator[None]:
        """Read another text in the block."""
        outer, self.source = self.source, source
        try:
            yield
        finally:
            self.source = outer

    def raw(self, node: Node) -> bytes:
        """Return the text of a node of the text that is read now."""
        return self.source[node.start_byte : node.end_byte]

    def text(self, node: Node | None) -> str:
        """Return the text of a node; nothing for none."""
        return self.raw(node).decode(errors="replace") if node else ""

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Leave variables and the directory as they were before the block."""
        before, self.variables = self.variables, dict(self.variables)
        try:
            yield
        finally:
            self.variables = before

    @contextmanager
    def branching(self) -> Iterator[None]:
        """Read what may run or not in the block: a file that it writes may be that of before."""
        self._branching += 1
        try:
            yield
        finally:
            self._branching -= 1

    # Variables.

    def value(self, name: str) -> Array | None:
        """Return the value of a variable, UNKNOWN if it has several; None if the text has not set it."""
        values = self.variables.get(name)
        return None if values is None else values[0] if len(values) == 1 else UNKNOWN_VALUE

    def set(self, name: str, *values: Array) -> None:
        """Set a variable, to one value or to several of which it may have each."""
        if any(_SUBSCRIPT.search(word.text) for value in values for word in value):
            self.findings.append(f"{UNSEEN}: a subscript with a substitution is evaluated later")
        if name in _COMMAND_TABLES and any(word.text for value in values for word in value):
            self.findings.append(f"{UNSEEN}: {name} changes what later commands are")
        self.variables[name] = (UNKNOWN_VALUE,) if name in self._opaque else values
        if len(values) > 1:
            self._several.add(name)

    def forget(self, names: Iterable[str]) -> None:
        """Make variables UNKNOWN."""
        self.variables.update(dict.fromkeys(names, (UNKNOWN_VALUE,)))

    def merge(self, states: Sequence[Variables]) -> None:
        """Go on with the variables of several branches: each has the values of all that have set it."""
        together: Variables = {}
        for variables in states:
            for name, values in variables.items():
                before = together.setdefault(name, values)
                if before is not values and before != values:
                    together[name] = _different(before + values)
                    self._several.add(name)
        self.variables = together

    def changed(self, before: Variables) -> list[str]:
        """Return the variables that have other values than before."""
        return [
            name
            for name, values in self.variables.items()
            if values is not before.get(name) and _texts(values) != _texts(before.get(name, ()))
        ]

    def alternatives(self, text: str) -> Iterator[Variables]:
        """Return the variables for each combination of the values of those that a text uses; none if there is one."""
        if not self._several:
            return
        used = {*_WORD.findall(text), _DIRECTORY, "@"} & self._several
        combinations: list[Variables] = [{}]
        for name in used:
            values = self.variables.get(name, ())
            if len(values) > 1 and len(values) * len(combinations) <= _MAX_VALUES:
                combinations = [{**one, name: (value,)} for one in combinations for value in values]
        if len(combinations) > 1:
            yield from combinations

    def assign(self, assigned: Assignment) -> None:
        """Follow an assignment."""
        value, before = assigned.value, self.value(assigned.name) or ()
        if assigned.adds and assigned.array:
            value = before + value
        elif assigned.adds and before:
            glob = before[0].glob or value[0].glob
            value = (replace(value[0], text=before[0].text + value[0].text, glob=glob), *before[1:])
        self.set(assigned.name, value)
        if assigned.element or sum(len(word.text) for word in value) > MAX_VALUE:
            self.forget([assigned.name])

    @property
    def directory(self) -> str:
        """Where commands run, seen from where the text begins."""
        return one_word(self.value(_DIRECTORY) or (Word(""),)).text

    # What a command changes for those behind it.

    def follow(self, command: Command) -> None:
        """Follow what a builtin changes."""
        name, texts = command.name, command.texts
        if name in _DECLARING:
            self._declare(command)
        elif name == "alias":
            self.aliases.update(text.partition("=")[0] for text in texts if "=" in text)
        elif name == "hash" and "-p" in texts:
            self.findings.append(f"{UNSEEN}: a name is given to another program")
        elif name in _READING:
            self._read(command)
        elif name == "set" and (("--" in texts) or (texts and not texts[0].startswith(("-", "+")))):
            self.set("@", command.args[texts.index("--") + 1 if "--" in texts else 0 :])
        elif name == "shift":
            self.forget("@")
        elif name in ("cd", "pushd", "chdir", "popd"):
            place = next((text for text in texts if text == "-" or not text.startswith("-")), "~")
            self._enter("-" if name == "popd" else place)

    def _declare(self, command: Command) -> None:
        """Follow what is declared by quoted or expanded words; plain assignments are known already."""
        options = Options.of(command.args)
        for word in options.operands:
            name, _, value = word.text.partition("=")
            if (options.has("lnu") or value.startswith("(")) and command.name != "export":
                self._opaque |= {name, value}
            if found := _ASSIGNMENT.fullmatch(word.text):
                self.assign(Assignment(found[1], (Word(found[4]),), bool(found[2]), bool(found[3])))

    def _read(self, command: Command) -> None:
        if command.name == "printf" and command.texts[:1] != ("-v",):
            return
        if _SUBSCRIPT.search(command.given or ""):
            self.findings.append(f"{UNSEEN}: a subscript with a substitution is evaluated later")
        found = (_NAME.match(text) for text in (*command.texts, "REPLY", "MAPFILE"))
        self.forget(name[0] for name in found if name)

    def _enter(self, place: str) -> None:
        here = self.directory
        there = one_word(self.value(_PREVIOUS) or (Word(""),)).text if place == "-" else joined(here, place)
        if there and UNKNOWN not in there and not there.startswith("~"):
            there = posixpath.normpath(there)
        self.set(_PREVIOUS, (Word(here),))
        self.set(_DIRECTORY, (Word("" if there == "." else there),))

    # Files.

    def note_files(self, command: Command) -> None:
        """Note the files that a command writes."""
        adds = any(one.operator.endswith(">>") for one in command.redirects)
        for path in files_written(command):
            before = self.writers(path)
            if before and self._branching and not adds:
                command = replace(command, prints=None)
            self._files[path] = (*before, command) if adds or self._branching else (command,)
        if command.name == "ln":
            sources = [word.text for word in Options.of(command.args).operands]
            if len(sources) == 2:
                self._links[sources[1].rstrip("/")] = sources[0]

    def writers(self, path: str) -> Flow:
        """Return the commands that have written a file."""
        return self._files.get(path.removeprefix("./"), ())

    def located(self, word: Word) -> Word:
        """Return a word with the commands that have written the file that it names, and links on its way followed."""
        for link, source in self._links.items():
            if word.text.startswith(f"{link}/"):
                word = replace(word, text=source.rstrip("/") + word.text[len(link) :])
        return word if word.fed_by or not self._files else replace(word, fed_by=self.writers(word.text))

    def by_path(self, word: Word) -> Word:
        """Return the name of a program, or the file that the text has written for PATH to find it."""
        if "PATH" not in self.variables or "/" in word.text:
            return word
        found = next((path for path in self._files if "/" in path and posixpath.basename(path) == word.text), None)
        return Word(found, fed_by=self._files[found]) if found and word.text else word
