"""What a shell is asked to run."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple


class Where(Enum):
    """Which process runs a command."""

    MAIN = "main"
    """The shell itself, so that what the command changes stays."""
    SUBSHELL = "sub"
    """A fork of the shell, so that nothing stays."""
    ATTACHED = "attached"
    """A fork of the shell with the stream's input as its own. If it succeeds, it has to have read all that was written
    for it, as the shell reads on behind it; if it fails, the shell ends too."""
    LAST = "last"
    """The shell itself, which then ends: the command has the stream's input as its own."""
    LAST_ON_TERMINAL = "tty"
    """The same on a terminal."""

    @property
    def takes_input(self) -> bool:
        """Whether the command has the stream's input as its own. Where its output begins is then always said."""
        return self not in (Where.MAIN, Where.SUBSHELL)

    @property
    def ends_shell(self) -> bool:
        """Whether the shell ends with the command."""
        return self in (Where.LAST, Where.LAST_ON_TERMINAL)


class Request(NamedTuple):
    """One command, and how to run it."""

    command: str
    where: Where = Where.MAIN
    cwd: str | None = None
    """The directory to run in; `~` is the target user's home. Without it nothing runs. For this command only."""
    env: Mapping[str, str] = MappingProxyType({})
    """Variables for this command only."""
    stdin_file: str | None = None
    """A file of the target that the command reads, and that is removed when it is open."""
    separate: bool = False
    """Whether stderr is kept apart."""
    exports: Mapping[str, str] = MappingProxyType({})
    """Variables that the shell exports before, and keeps; one that it has already stays as it is."""
    command_file: str | None = None
    """A file of the target that holds the command instead, and that is removed before it runs."""
