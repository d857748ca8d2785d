"""The state of a session: state reports of its shells, and the restore in the next shell."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from environments.shell.framing import MAX_MESSAGE_BYTES, Kind, Message

_WORD = r"""(?:"(?:[^"\\]|\\.)*+"|\$'(?:[^'\\]|\\.)*+'|'[^']*+'|\\.|[^\s"'\\])*+"""
"""A value as shells print it. Possessive quantifiers prevent backtracking: `$'x'` matches in two ways, n of them in
2**n ways."""
PIECE_COST = 100
"""Bytes a line of a report takes on top of its text."""
_EXPORT = rf"(?s)(?:declare -\w+|export) (\w+)(?:={_WORD})?\n"
"""One variable in a state report. Matches the whole value: text inside may look like another variable."""


class SessionState(NamedTuple):
    """A complete state report. Only a shell of the same dialect can restore it."""

    exports: str = ""
    """Shell text that restores the exports and the umask."""
    functions: str = ""
    """Shell text that restores functions and aliases; in a plain sh, the options."""
    options: frozenset[str] = frozenset()
    """The enabled options of `set -o`."""
    shell_options: frozenset[str] = frozenset()
    """The enabled options of `shopt`."""
    variables: Mapping[str, str] = MappingProxyType({})
    """The `SESSION_FIELDS`."""

    @property
    def is_reported(self) -> bool:
        """True once a shell has reported its state."""
        return bool(self.exports)


def with_variables_of(state: SessionState, held: SessionState, names: Collection[str]) -> SessionState:
    """Return a state with some variables reset to earlier values: a command's own variables.

    Args:
        state: The report at the end of the command and its shell.
        held: The report before the command.
        names: The variables.
    """
    before = "".join(found[0] for found in re.finditer(_EXPORT, held.exports) if found[1] in names)
    others = re.sub(_EXPORT, lambda found: "" if found[1] in names else found[0], state.exports)
    return state._replace(exports=before + others)


def exports_of(state: SessionState) -> dict[str, str]:
    """Return the exports of a state, as shell text by name."""
    return {found[1]: found[0] for found in re.finditer(_EXPORT, state.exports)}


class StateReports:
    """Assembles state reports from messages, and rejects incomplete reports.

    Args:
        first: The state at the start.
    """

    def __init__(self, first: SessionState) -> None:
        self._last: SessionState | Message = first  # parsed on use: a report follows every command, and few are needed
        self._before: SessionState | Message = first
        self._pieces: dict[int, tuple[list[str], list[str]]] = {}
        self._bytes = 0

    @property
    def last(self) -> SessionState:
        """The last complete report."""
        self._last = _as_state(self._last)
        return self._last

    @property
    def before(self) -> SessionState:
        """The complete report before the last."""
        self._before = _as_state(self._before)
        return self._before

    def add(self, message: Message) -> bool:
        """Add a message. Returns True if the message completes a report."""
        if message.kind is Kind.STATE:
            if message.fields[5] != message.fields[0]:
                return False
            self._before, self._last = self._last, message
            return True
        if message.kind is Kind.PIECE:
            self._add_piece(message)
            return False
        exports, functions = self._pieces.pop(message.number, ([], []))
        self._pieces.clear()
        lines = exports + functions
        if message.fields[3:] != (b"%d" % len(lines), b"%d" % sum(map(len, lines))):
            return False
        self._before, self._last = self._last, _state(message, "\n".join(exports), "\n".join(functions))
        return True

    def _add_piece(self, message: Message) -> None:
        """Add a line to the report in progress. A report above the size limit is dropped."""
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
