"""Users of a target: their accounts, methods to become them, and a private scratch directory for each."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from environments.errors import TerminalError, UnsupportedError
from environments.files import removal_command
from environments.result import CommandResult
from environments.shell.dialect.commands import (
    FOUND,
    SwitchMethod,
    becoming,
    finding,
    in_temporary_directory,
    making_scratch,
)
from environments.shell.lifecycle import call_backend, weak_proxy

if TYPE_CHECKING:
    from environments.shell.environment import PersistentShellEnvironment

IDENTITY = ("HOME", "USER", "LOGNAME", "SHELL", "MAIL")
"""Variables that identify a user, never passed from the session to another user."""


@dataclass(frozen=True, slots=True)
class TargetUser:
    """A user of the target, and the method to become this user."""

    name: str
    """Empty for a number without a name."""
    uid: int
    gid: int
    home: str
    shell: str
    """The login shell."""
    method: SwitchMethod

    @property
    def is_default(self) -> bool:
        """True for the target's default user."""
        return self.method is SwitchMethod.OWN

    @property
    def variables(self) -> Mapping[str, str]:
        """The `IDENTITY` variables of its processes. Without a name, the number takes its place."""
        name = self.name or str(self.uid)
        return {"HOME": self.home, "USER": name, "LOGNAME": name, "SHELL": self.shell}

    def becoming(self, argv: Sequence[str]) -> list[str]:
        """Return a program and its arguments, wrapped to run as this user."""
        return becoming(self.method, self.name, self.uid, self.gid, list(argv))


def find_user(
    user: str, run: Callable[[str], CommandResult], backend: str, *, by_engine: bool = False, hint: str = ""
) -> TargetUser:
    """Find a user of a target, and test the methods to become this user.

    Args:
        user: The name or the number.
        run: Runs shell text there, as the target's default user.
        backend: The backend's name, for errors.
        by_engine: True if the container engine can start processes as any user.
        hint: Advice for a target without a method.

    Raises:
        UnsupportedError: There is no such user, or no method to become this user.
        TerminalError: The target does not answer.
    """
    said = run(finding(user, by_engine=by_engine)).output
    lines = said[said.find(FOUND) :].split("\n") if FOUND in said else []
    words = lines[0].split() if lines else []
    if words == [FOUND]:
        raise UnsupportedError(
            f"backend {backend!r} has no user {user!r}: there is no such user in its target; create the user there"
        )
    if len(lines) < 4 or len(words) != 4 or not (words[2] + words[3]).isdigit():
        raise UnsupportedError(f"backend {backend!r} cannot identify user {user!r}: {said.strip()[:500]}")
    name, home, shell = lines[1:4]
    found = TargetUser(name, int(words[2]), int(words[3]), home or "/", shell or "/bin/sh", SwitchMethod(words[1]))
    if found.method is SwitchMethod.NONE:
        raise UnsupportedError(
            f"backend {backend!r} cannot run a command as user {user!r}: its own user may not become another; have it "
            f"be root there, with setpriv or su, or allow it {hint or '`sudo -n -u USER`'}, or leave user out"
        )
    return found


class Scratch:
    """A private directory, made on first use, and again in a new target.

    Args:
        env: The environment. Its name is part of the directory's name.
        user: The owner; None is the target's default user.
    """

    def __init__(self, env: PersistentShellEnvironment, user: TargetUser | None = None) -> None:
        self._env = weak_proxy(env)
        self._user = user
        self._lock = asyncio.Lock()
        self._path = ""
        self._generation = 0
        self._of_users: dict[TargetUser, Scratch] = {}

    def of(self, user: TargetUser | None) -> Scratch:
        """Return the directory of a user; this directory for None."""
        if user is None:
            return self
        if user not in self._of_users:
            self._of_users[user] = Scratch(self._env, user)
        return self._of_users[user]

    @property
    def is_there(self) -> bool:
        """True if any user's directory was made in the current target."""
        return bool(self.made) or any(each.made for each in self._of_users.values())

    @property
    def made(self) -> str:
        """The path, if made in the current target; else empty."""
        return self._path if self._path and self._generation == self._env.life.generation else ""

    async def directory(self) -> str:
        """Return the path.

        Raises:
            TerminalError: The directory could not be made.
        """
        env = self._env
        generation = await env.life.ensure_started(internal=True)
        async with self._lock:
            if not self._path or self._generation != generation:
                name = f"hermes-{env.id}-{os.urandom(4).hex()}"
                self._path = await (call_backend(env.make_scratch, name) if self._user is None else self._made(name))
                self._generation = generation
            return self._path

    async def _made(self, name: str) -> str:
        return scratch_path_of(self._env.settings.env, *await self._ran(making_scratch(name)))

    async def _ran(self, text: str) -> tuple[str, int]:
        if self._user is None:
            return await self._env.run_internal(text)
        return await self._env.shells.control_of(self._user).run_with_code(text)

    async def put(self, data: bytes) -> str:
        """Write a file readable by its user alone, and return its path."""
        path = f"{await self.directory()}/{os.urandom(8).hex()}"
        if self._user is None:
            await call_backend(self._env.write_scratch, path, data)
        else:
            from environments.shell.files import ShellFiles  # most commands need no file of another user
            from environments.shell.transfer import Runner

            runner = Runner(self._env, str(self._user.uid))
            await ShellFiles(runner, self._env.settings.env).write(path, data, "600")
        return path

    async def remove(self) -> None:
        """Remove the directories of all users, and directories left by killed shells."""
        for each in self._of_users.values():
            await each.remove()
        if made := self._path:
            self._path = ""
            # An earlier directory may still be there: a lost target may be the same machine.
            beside = in_temporary_directory(f"hermes-{self._env.id}-")
            await self._ran(f"{removal_command(made)}; rm -rf -- {beside}*")


def scratch_path_of(backend: str, output: str, exit_code: int) -> str:
    """Return the path printed by `making_scratch`.

    Raises:
        TerminalError: The directory could not be made.
    """
    if exit_code != 0:
        raise TerminalError(
            f"cannot make a temporary directory on backend {backend!r} for standard input and long commands: "
            f"{output.strip()}; set TMPDIR there to a writable directory"
        )
    return output
