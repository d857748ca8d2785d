"""The state of reading a shell text: variables, functions, aliases, written files and the working directory."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from environments.approvals.budget import MAX_VALUE
from environments.approvals.command import UNKNOWN, UNSEEN, Command, Options, Word
from environments.approvals.outputs import Flow, files_written
from environments.approvals.wrappers import join_path

if TYPE_CHECKING:
    from tree_sitter import Node

Array = tuple[Word, ...]
"""The elements of an array; a plain variable has a single element."""
Variables = dict[str, tuple[Array, ...]]
"""Variables with their possible values: several where branches or iterations of a loop differ."""
UNKNOWN_VALUE: Array = (Word(UNKNOWN, quoted=False),)
_DIRECTORY, _PREVIOUS = "./", "-/"
"""Internal variables for the working directory and the previous directory."""
_MAX_VALUES = 64
_NAME = re.compile(r"[A-Za-z_]\w*")
_WORD = re.compile(r"\w+")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[([^\]]*)\])?(\+?)=(.*)", re.DOTALL)
_SUBSCRIPT = re.compile(r"\w\[[^\]]*(?:\$\(|`)")
"""A subscript with a substitution. The shell evaluates the value wherever a number or a name is expected."""
_DECLARING = frozenset({"export", "declare", "local", "typeset", "readonly"})
_READING = frozenset({"read", "mapfile", "readarray", "getopts", "unset", "let", "printf"})
_COMMAND_TABLES = frozenset({"BASH_ALIASES", "BASH_CMDS", "BASH_ENV", "CDPATH"})
"""Variables that change the meaning of later commands."""

_PLAIN_VALUES = """
HOME=~ PWD=. TMPDIR=/tmp USER=user LOGNAME=user SHELL=sh BASH=bash PYTHON=python CC=cc CXX=c++ MAKE=make EDITOR=vi
PAGER=less ?=0 -= 0=sh BASH_SOURCE=sh UID=1 EUID=1 RANDOM=1 SECONDS=1 LINENO=1 $=4321 !=4321 PPID=4321 BASHPID=4321
"""
KNOWN = {"IFS": " ", **dict(one.split("=") for one in _PLAIN_VALUES.split())}
"""Values assumed for variables that the text has not set: known or harmless."""


@dataclass(frozen=True, slots=True)
class Function:
    """A shell function defined in the text."""

    name: str
    body: Node
    source: bytes
    """The bytes to which the positions in the body refer."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """`name=value`, or `name=(values)`."""

    name: str
    value: Array
    is_element: bool = False
    """True for elements of an array, whose values are not tracked."""
    is_append: bool = False
    is_array: bool = False

    @property
    def text(self) -> str:
        """The assignment as a single word."""
        return f"{self.name}{'[0]' if self.is_element else ''}{'+' * self.is_append}={one_word(self.value).text}"


def one_word(value: Array) -> Word:
    """Join the elements of an array into a single word."""
    return value[0] if len(value) == 1 else Word(" ".join(word.text for word in value))


def _texts(values: tuple[Array, ...]) -> list[list[str]]:
    return [[word.text for word in value] for value in values]


def _different(values: tuple[Array, ...]) -> tuple[Array, ...]:
    """Return values without duplicates; UNKNOWN alone for too many values or an unknown value among several."""
    different: dict[tuple[str, ...], Array] = {}
    for value in values:
        different.setdefault(tuple(word.text for word in value), value)
    words = [word for value in different.values() for word in value]
    if len(different) > _MAX_VALUES or (len(different) > 1 and any(not word.literal for word in words)):
        return ((Word(UNKNOWN, quoted=False, producers=tuple(fed for word in words for fed in word.producers)),),)
    return tuple(different.values())


class ReaderState:
    """Variables, functions, files, findings and working directory after the commands so far."""

    def __init__(self) -> None:
        self.variables: Variables = {}
        self.functions: dict[str, Function] = {}
        self.aliases: set[str] = set()
        self.findings: list[str] = []
        self.unread = ""
        self.has_used_unset = False
        """True once an unset variable was used."""
        self.source = b""
        """The bytes of the text being read."""
        self._opaque: set[str] = set()
        """Variables with several names or with changed case (`declare -n`, `-l`, `-u`): always UNKNOWN."""
        self._several: set[str] = set()
        """Variables with several possible values."""
        self._files: dict[str, Flow] = {}
        """The commands that wrote each file."""
        self._links: dict[str, str] = {}
        self._branching = 0

    @contextmanager
    def reading(self, source: bytes) -> Iterator[None]:
        """Read another text in the block."""
        outer, self.source = self.source, source
        try:
            yield
        finally:
            self.source = outer

    def raw(self, node: Node) -> bytes:
        """Return the bytes of a node."""
        return self.source[node.start_byte : node.end_byte]

    def text(self, node: Node | None) -> str:
        """Return the text of a node; empty for None."""
        return self.raw(node).decode(errors="replace") if node else ""

    @contextmanager
    def subshell(self) -> Iterator[None]:
        """Restore variables and the directory after the block."""
        before, self.variables = self.variables, dict(self.variables)
        try:
            yield
        finally:
            self.variables = before

    @contextmanager
    def branching(self) -> Iterator[None]:
        """Read a branch in the block. The branch may not run, so its files may keep their old contents."""
        self._branching += 1
        try:
            yield
        finally:
            self._branching -= 1

    # Variables.

    def value(self, name: str) -> Array | None:
        """Return the value of a variable; UNKNOWN for several possible values, None for an unset variable."""
        values = self.variables.get(name)
        return None if values is None else values[0] if len(values) == 1 else UNKNOWN_VALUE

    def set(self, name: str, *values: Array) -> None:
        """Set a variable to its possible values."""
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
        """Merge the variables of several branches: each has the values of all branches."""
        together: Variables = {}
        for variables in states:
            for name, values in variables.items():
                before = together.setdefault(name, values)
                if before is not values and before != values:
                    together[name] = _different(before + values)
                    self._several.add(name)
        self.variables = together

    def changed(self, before: Variables) -> list[str]:
        """Return the names of changed variables."""
        return [
            name
            for name, values in self.variables.items()
            if values is not before.get(name) and _texts(values) != _texts(before.get(name, ()))
        ]

    def alternatives(self, text: str) -> Iterator[Variables]:
        """Return each combination of values for the variables in a text; nothing if there is a single combination."""
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
        """Apply an assignment."""
        value, before = assigned.value, self.value(assigned.name) or ()
        if assigned.is_append and assigned.is_array:
            value = before + value
        elif assigned.is_append and before:
            glob = before[0].glob or value[0].glob
            value = (replace(value[0], text=before[0].text + value[0].text, glob=glob), *before[1:])
        self.set(assigned.name, value)
        if assigned.is_element or sum(len(word.text) for word in value) > MAX_VALUE:
            self.forget([assigned.name])

    @property
    def directory(self) -> str:
        """The working directory, relative to the start of the text."""
        return one_word(self.value(_DIRECTORY) or (Word(""),)).text

    # Effects of a command on later commands.

    def apply(self, command: Command) -> None:
        """Apply the effects of a builtin."""
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
        """Apply declarations by quoted or expanded words; plain assignments are applied already."""
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
        if _SUBSCRIPT.search(command.stdin_text or ""):
            self.findings.append(f"{UNSEEN}: a subscript with a substitution is evaluated later")
        found = (_NAME.match(text) for text in (*command.texts, "REPLY", "MAPFILE"))
        self.forget(name[0] for name in found if name)

    def _enter(self, place: str) -> None:
        here = self.directory
        there = one_word(self.value(_PREVIOUS) or (Word(""),)).text if place == "-" else join_path(here, place)
        if there and UNKNOWN not in there and not there.startswith("~"):
            there = posixpath.normpath(there)
        self.set(_PREVIOUS, (Word(here),))
        self.set(_DIRECTORY, (Word("" if there == "." else there),))

    # Files.

    def record_writes(self, command: Command) -> None:
        """Record the files that a command writes."""
        adds = any(one.operator.endswith(">>") for one in command.redirects)
        for path in files_written(command):
            before = self.writers(path)
            if before and self._branching and not adds:
                command = replace(command, stdout_text=None)
            self._files[path] = (*before, command) if adds or self._branching else (command,)
        if command.name == "ln":
            sources = [word.text for word in Options.of(command.args).operands]
            if len(sources) == 2:
                self._links[sources[1].rstrip("/")] = sources[0]

    def writers(self, path: str) -> Flow:
        """Return the commands that wrote a file."""
        return self._files.get(path.removeprefix("./"), ())

    def resolve(self, word: Word) -> Word:
        """Return a path with its symbolic links followed and with the commands that wrote the file as producers."""
        for link, source in self._links.items():
            if word.text.startswith(f"{link}/"):
                word = replace(word, text=source.rstrip("/") + word.text[len(link) :])
        return word if word.producers or not self._files else replace(word, producers=self.writers(word.text))

    def resolve_program(self, word: Word) -> Word:
        """Return the name of a program, or the file that the text wrote into a directory of its own PATH."""
        if "PATH" not in self.variables or "/" in word.text:
            return word
        found = next((path for path in self._files if "/" in path and posixpath.basename(path) == word.text), None)
        return Word(found, producers=self._files[found]) if found and word.text else word
