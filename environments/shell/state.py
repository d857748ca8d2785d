"""What a session carries from one shell to the next."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from environments.shell.framing import MAX_MESSAGE_BYTES, Kind, Message

_WORD = r"""(?:"(?:[^"\\]|\\.)*+"|\$'(?:[^'\\]|\\.)*+'|'[^']*+'|\\.|[^\s"'\\])*+"""
"""A value as shells write it. Nothing of it is read twice: `$'x'` can be one thing or two, which n of them are in 2**n
ways."""
PIECE_COST = 100
"""Bytes that a line of a report takes on top of its text."""
_EXPORT = rf"(?s)(?:declare -\w+|export) (\w+)(?:={_WORD})?\n"
"""One variable in the report of a shell. It takes the whole value, in which the same may stand once more."""


class SessionState(NamedTuple):
    """What a shell reported last, whole. Only shells of the same kind can take it up."""

    exports: str = ""
    """Shell text that brings back the exports and the umask."""
    functions: str = ""
    """Shell text that brings back functions and aliases; in a plain sh, the options."""
    options: frozenset[str] = frozenset()
    """The options of `set -o` that are on."""
    shell_options: frozenset[str] = frozenset()
    """Those of `shopt`."""
    variables: Mapping[str, str] = MappingProxyType({})
    """The `SESSION_FIELDS`."""

    @property
    def reported(self) -> bool:
        """Whether any shell has said what it holds."""
        return bool(self.exports)


def with_variables_of(state: SessionState, held: SessionState, names: Collection[str]) -> SessionState:
    """Return a state with some variables as they were before: those that one command had for its own.

    Args:
        state: What was reported as the command ended its shell.
        held: What had been reported before the command.
        names: The variables.
    """
    before = "".join(found[0] for found in re.finditer(_EXPORT, held.exports) if found[1] in names)
    others = re.sub(_EXPORT, lambda found: "" if found[1] in names else found[0], state.exports)
    return state._replace(exports=before + others)


def exports_of(state: SessionState) -> dict[str, str]:
    """Return the exports of a state: for each name the shell text that brings it back."""
    return {found[1]: found[0] for found in re.finditer(_EXPORT, state.exports)}


class StateReports:
    """Puts together what a shell reports about its state, and refuses what is not whole.

    Args:
        first: What it holds from the beginning.
    """

    def __init__(self, first: SessionState) -> None:
        self._last: SessionState | Message = first  # one comes behind every command, and hardly any is ever needed
        self._before: SessionState | Message = first
        self._pieces: dict[int, tuple[list[str], list[str]]] = {}
        self._bytes = 0

    @property
    def last(self) -> SessionState:
        """The last report that was whole."""
        self._last = _as_state(self._last)
        return self._last

    @property
    def before(self) -> SessionState:
        """The whole report before that."""
        self._before = _as_state(self._before)
        return self._before

    def take(self, message: Message) -> bool:
        """Take a message, and return whether it has made a report whole."""
        if message.kind is Kind.STATE:
            if message.fields[5] != message.fields[0]:
                return False
            self._before, self._last = self._last, message
            return True
        if message.kind is Kind.PIECE:
            self._take_piece(message)
            return False
        exports, functions = self._pieces.pop(message.number, ([], []))
        self._pieces.clear()
        lines = exports + functions
        if message.fields[3:] != (b"%d" % len(lines), b"%d" % sum(map(len, lines))):
            return False
        self._before, self._last = self._last, _state(message, "\n".join(exports), "\n".join(functions))
        return True

    def _take_piece(self, message: Message) -> None:
        """Keep a piece of the report that is being made. What is too much for one is no report, and is dropped."""
        if message.number not in self._pieces:
            self._pieces = {message.number: ([], [])}
            self._bytes = 0
        self._bytes += len(message.fields[2]) + PIECE_COST
        if self._bytes <= MAX_MESSAGE_BYTES:
            self._pieces[message.number][message.fields[1] == b"2"].append(message.text(2))
        else:
            self._pieces[message.number] = ([], [])


def _as_state(report: SessionState | Message) -> SessionState:
    return _state(report, report.text(3), report.text(4)) if isinstance(report, Message) else report


def _state(message: Message, exports: str, functions: str) -> SessionState:
    options, shell_options = (frozenset(message.text(index).split(":")) - {""} for index in (1, 2))
    return SessionState(exports, functions, options, shell_options)
