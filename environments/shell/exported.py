"""What a session has exported, for a command that runs beside it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from environments.owner import MARKER_VARIABLE
from environments.shell.dialect.base import Dialect
from environments.shell.state import SessionState, exports_of

OF_A_SHELL = frozenset(
    {MARKER_VARIABLE, "PWD", "OLDPWD", "SHLVL", "_", "BASHOPTS", "SHELLOPTS", "UID", "EUID", "PPID", "IFS"}
)
"""Variables that each shell has of its own."""
_OURS = re.compile(r"_[0-9a-f]{3}_[a-z_]+")
"""Names of ours in a plain sh, which `set -a` exports."""


class Exported(NamedTuple):
    """What the session's last ended command left exported.

    Attributes:
        dialect: The kind of shell that reported it; None if none has.
        state: The report.
        trusted: Variables that are to be as they were before scripts changed them; an empty one was not set.
        due: Variables that the session is to have with its next command.
    """

    dialect: type[Dialect] | None = None
    state: SessionState = SessionState()
    trusted: Mapping[str, str] = MappingProxyType({})
    due: Mapping[str, str] = MappingProxyType({})

    @property
    def known(self) -> bool:
        """Whether the session has reported anything. If not, it has what any shell of the target begins with."""
        return self.dialect is not None and self.state.reported

    def taken_up_by(self, command: str, kept: Collection[str]) -> str:
        """Return a command that begins with these variables, and without those that the session does not have.

        Args:
            command: Shell text.
            kept: Variables that stay as they are where it runs.
        """
        assert self.dialect
        exports = {**exports_of(self.state), **{name: _export(name, value) for name, value in self.trusted.items()}}
        apart = {*OF_A_SHELL, *kept, *self.due, *filter(_OURS.fullmatch, exports)}
        theirs = {name: text for name, text in exports.items() if text and name not in apart}
        return self.dialect.taking_up(theirs, apart, command)


def _export(name: str, value: str) -> str:
    return f"export {name}={shlex.quote(value)}\n" if value else ""
