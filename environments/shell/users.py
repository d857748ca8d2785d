"""Users of a target: who they are, how a process becomes one, and the private directory that each has there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from environments.errors import TerminalError, UnsupportedError
from environments.files import removing
from environments.result import CommandResult
from environments.shell.dialect.commands import FOUND, Way, becoming, finding, in_temporary_directory, making_scratch
from environments.shell.lifecycle import answered, weakly

if TYPE_CHECKING:
    from environments.shell.environment import PersistentShellEnvironment

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


class Scratch:
    """A directory that is made on first use, and again in a new target.

    Args:
        env: The environment, whose name is in that of the directory.
        user: The user that it belongs to; None is the target's own.
    """

    def __init__(self, env: PersistentShellEnvironment, user: TargetUser | None = None) -> None:
        self._env = weakly(env)
        self._user = user
        self._lock = asyncio.Lock()
        self._path = ""
        self._generation = 0
        self._of_users: dict[TargetUser, Scratch] = {}

    def of(self, user: TargetUser | None) -> Scratch:
        """Return the directory of a user; this one for None."""
        if user is None:
            return self
        if user not in self._of_users:
            self._of_users[user] = Scratch(self._env, user)
        return self._of_users[user]

    @property
    def is_there(self) -> bool:
        """True if any user's directory was made in the target there is now."""
        return bool(self.made) or any(each.made for each in self._of_users.values())

    @property
    def made(self) -> str:
        """The path, if the directory was made in the target there is now; else empty."""
        return self._path if self._path and self._generation == self._env.life.generation else ""

    async def directory(self) -> str:
        """Return the path.

        Raises:
            TerminalError: It could not be made.
        """
        env = self._env
        generation = await env.life.ensure_started(internal=True)
        async with self._lock:
            if not self._path or self._generation != generation:
                name = f"hermes-{env.id}-{os.urandom(4).hex()}"
                self._path = await (answered(env.make_scratch, name) if self._user is None else self._made(name))
                self._generation = generation
            return self._path

    async def _made(self, name: str) -> str:
        return made_of(self._env.settings.env, *await self._ran(making_scratch(name)))

    async def _ran(self, text: str) -> tuple[str, int]:
        if self._user is None:
            return await self._env.ran_internal(text)
        return await self._env.shells.control_of(self._user).ran(text)

    async def put(self, data: bytes) -> str:
        """Write a file that only the user can read, and return its path."""
        path = f"{await self.directory()}/{os.urandom(8).hex()}"
        if self._user is None:
            await answered(self._env.write_scratch, path, data)
        else:
            from environments.shell.files import ShellFiles  # most commands need no file of another user's
            from environments.shell.transfer import Runner

            runner = Runner(self._env, str(self._user.uid))
            await ShellFiles(runner, self._env.settings.env).write(path, data, "600")
        return path

    async def remove(self) -> None:
        """Remove it and those of users, if they were made, with what killed shells of ours have left beside them."""
        for each in self._of_users.values():
            await each.remove()
        if made := self._path:
            self._path = ""
            # An earlier one may still be there, as a target that was lost may be the same machine.
            beside = in_temporary_directory(f"hermes-{self._env.id}-")
            await self._ran(f"{removing(made)}; rm -rf -- {beside}*")


def made_of(backend: str, output: str, exit_code: int) -> str:
    """Return the path that `making_scratch` has printed.

    Raises:
        TerminalError: The directory could not be made.
    """
    if exit_code != 0:
        raise TerminalError(
            f"no temporary directory can be made on backend {backend!r}, which standard input and long commands need: "
            f"{output.strip()}; set TMPDIR there to one that is writable"
        )
    return output
