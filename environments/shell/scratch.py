"""Our private directory in the target, of each user that commands run as."""

from __future__ import annotations

import asyncio
import os
import weakref
from typing import TYPE_CHECKING

from environments.errors import TerminalError
from environments.files import removing
from environments.shell.dialect.commands import in_temporary_directory, making_scratch
from environments.shell.lifecycle import answered

if TYPE_CHECKING:
    from environments.shell.environment import PersistentShellEnvironment
    from environments.shell.target_user import TargetUser


class Scratch:
    """A directory that is made on first use, and again in a new target.

    Args:
        env: The environment, whose name is in that of the directory.
        user: The user that it belongs to; None is the target's own.
    """

    def __init__(self, env: PersistentShellEnvironment, user: TargetUser | None = None) -> None:
        self._env = weakref.proxy(env)
        self._user = user
        self._lock = asyncio.Lock()
        self._path = ""
        self._generation = 0

    @property
    def made(self) -> str:
        """The path, if the directory was made in the target there is now; else empty."""
        return self._path if self._generation == self._env.life.generation else ""

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
            ran: tuple[str, int] = await self._env.ran_internal(text)
            return ran
        their: tuple[str, int] = await self._env.shells.control_of(self._user).ran(text)
        return their

    async def put(self, data: bytes) -> str:
        """Write a file that only the user can read, and return its path."""
        path = f"{await self.directory()}/{os.urandom(8).hex()}"
        if self._user is None:
            await answered(self._env.write_scratch, path, data)
        else:
            await self._env.write_as(str(self._user.uid), path, data)
        return path

    async def remove(self) -> None:
        """Remove it if it was made, with what shells of ours that were killed have left beside it."""
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
