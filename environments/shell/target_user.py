"""A user of a target other than its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from environments.errors import UnsupportedError
from environments.result import CommandResult
from environments.shell.dialect.users import FOUND, Way, becoming, finding

IDENTITY = ("HOME", "USER", "LOGNAME", "SHELL", "MAIL")
"""Variables that say who a user is, which no other gets from the session."""


@dataclass(frozen=True, slots=True)
class TargetUser:
    """Who it is, and how to become that user."""

    name: str
    """Empty for a number that has no name."""
    uid: int
    gid: int
    home: str
    shell: str
    """The login shell."""
    way: Way

    @property
    def is_own(self) -> bool:
        """Whether it is the target's own user."""
        return self.way is Way.OWN

    @property
    def variables(self) -> Mapping[str, str]:
        """What says to a process who it is. Who has no name is called by the number."""
        name = self.name or str(self.uid)
        return {"HOME": self.home, "USER": name, "LOGNAME": name, "SHELL": self.shell}

    def becoming(self, argv: Sequence[str]) -> list[str]:
        """Return a program and its arguments so that they are run as this user."""
        return becoming(self.way, self.name, self.uid, self.gid, list(argv))


def find_user(
    user: str, run: Callable[[str], CommandResult], backend: str, *, by_engine: bool = False, hint: str = ""
) -> TargetUser:
    """Look for a user of a target, and try how to become that user.

    Args:
        user: The name or the number.
        run: Runs shell text there, as the target's own user.
        backend: The backend's name, for errors.
        by_engine: Whether what starts processes in the target can start them as anybody.
        hint: What else to do where there is no way.

    Raises:
        UnsupportedError: There is no such user, or no way to become that user.
        TerminalError: The target does not answer.
    """
    said = run(finding(user, by_engine=by_engine)).output
    lines = said[said.find(FOUND) :].split("\n") if FOUND in said else []
    words = lines[0].split() if lines else []
    if words == [FOUND]:
        raise UnsupportedError(f"backend {backend!r} has no user {user!r}: its target does not know one; make it there")
    if len(lines) < 4 or len(words) != 4 or not (words[2] + words[3]).isdigit():
        raise UnsupportedError(f"backend {backend!r} cannot tell who user {user!r} is: {said.strip()[:500]}")
    name, home, shell = lines[1:4]
    found = TargetUser(name, int(words[2]), int(words[3]), home or "/", shell or "/bin/sh", Way(words[1]))
    if found.way is Way.NONE:
        raise UnsupportedError(
            f"backend {backend!r} cannot run a command as user {user!r}: its own user may not become another; have it "
            f"be root there, with setpriv or su, or allow it {hint or '`sudo -n -u USER`'}, or leave user out"
        )
    return found
