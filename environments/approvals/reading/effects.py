"""What one command changes for those behind it: variables, and the directory."""

from __future__ import annotations

import posixpath
import re

from environments.approvals.command import UNKNOWN, Command
from environments.approvals.options import Options
from environments.approvals.reading.tokens import Literal, RawWord
from environments.approvals.reading.variables import Variables

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?(\+?)=")
_DECLARING = frozenset({"export", "declare", "local", "typeset", "readonly", "env"})


class Effects:
    """Variables and directory at one place of a text."""

    def __init__(
        self,
        variables: Variables | None = None,
        directory: str = "",
        previous: str = "",
        files: dict[str, Command] | None = None,
    ) -> None:
        self.variables = variables or Variables()
        self.directory = directory
        self.files = files or {}
        """Which command has written what is in a file."""
        self._previous = previous

    def copy(self, *, has_arguments: bool | None = None) -> Effects:
        """Return them for a subshell, or for a function or a script with arguments."""
        variables = self.variables.copy(has_arguments=has_arguments)
        return Effects(variables, self.directory, self._previous, dict(self.files))

    def follow(self, command: Command) -> None:
        """Do what a command of the shell's own does, and note which files a command writes."""
        texts = command.texts
        self._note_files(command)
        if command.name in _DECLARING:
            for text in texts:
                if found := _ASSIGNMENT.match(text):
                    self.variables.set(found[1], [text[found.end() :]], appends=bool(found[2]))
        elif command.name in ("read", "mapfile", "readarray", "getopts", "unset"):
            for text in texts:
                self.variables.forget(text)
        elif command.name == "printf" and texts[:1] == ("-v",):
            self.variables.forget("".join(texts[1:2]))
        elif command.name == "set" and "--" in texts:
            self.variables.set_arguments(texts[texts.index("--") + 1 :])
        elif command.name in ("cd", "pushd", "chdir"):
            self._enter(next((text for text in texts if text == "-" or not text.startswith("-")), "~"))

    def _note_files(self, command: Command) -> None:
        paths = [redirect.target.text for redirect in command.redirects if redirect.writes]
        if command.name == "tee":
            paths += [text for text in command.texts if not text.startswith("-")]
        elif command.name in ("curl", "wget"):
            options = Options.of(command.args, ("-o", "--output", "--output-document"))
            paths += [value for _, value in options.values]
            paths += [word.text.rpartition("/")[2] for word in options.operands]
        for path in paths:
            self.files[path.removeprefix("./")] = command

    def writer_of(self, path: str) -> tuple[Command, ...]:
        """Return the command that has written a file, if the text has one."""
        found = self.files.get(path.removeprefix("./"))
        return (found,) if found else ()

    def _enter(self, place: str) -> None:
        there = self._previous if place == "-" else joined(self.directory, place)
        self._previous, self.directory = self.directory, there


def joined(directory: str, path: str) -> str:
    """Return a path as seen from where a text begins; `~` and what is not known begin anew."""
    if path.startswith(("/", "~", UNKNOWN)) or not directory:
        return path
    return posixpath.join(directory, path)


def assigned(word: RawWord) -> tuple[str, bool, RawWord] | None:
    """Return the name that a word gives a value, whether it adds to it, and the value; None if it is no assignment."""
    first = word.parts[0] if word.parts else None
    if not isinstance(first, Literal) or first.quoted:
        return None
    found = _ASSIGNMENT.match(first.text)
    if not found:
        return None
    rest = first.text[found.end() :]
    parts = [Literal(rest, quoted=False)] if rest else []
    return found[1], bool(found[2]), RawWord([*parts, *word.parts[1:]])
