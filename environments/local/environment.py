"""Commands on this machine."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from environments.errors import TerminalError
from environments.local.bash import open_bash, remember_bash
from environments.local.processes import NewProcesses, ProcessSearch, brands_of, finds_none, kill_new
from environments.local.settings import LocalSettings
from environments.secrets import command_variables
from environments.shell.child_stream import ChildStream
from environments.shell.dialect.boot import BootArgv
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.stream import Stream, Terminal
from environments.sources import load_settings

if TYPE_CHECKING:
    from environments.found_target import FoundTarget
    from environments.local.files import LocalFiles
    from environments.target import Address, Target


class LocalEnvironment(PersistentShellEnvironment):
    """Runs commands on this machine, as this user, with this process's environment except for keys of services."""

    backend = "local"
    settings_class = LocalSettings
    same_machine = True
    has_watchdog = True
    can_hunt = True

    @classmethod
    def list_targets(cls) -> Iterator[FoundTarget]:
        # Environments of any backend are listed that have a directory on this machine, outside of containers.
        from environments.shell.listing import list_environments  # imported late: rarely needed

        return list_environments(lambda: LocalEnvironment(load_settings("local", sandbox="none")))

    async def start_target(self) -> None:
        pass  # this machine is always up

    async def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        bash = open_bash(argv) if isinstance(argv, BootArgv) and argv.is_plain else None
        return bash or ChildStream(argv, terminal=terminal, env=command_variables())

    def found_bash(self) -> None:
        remember_bash()

    async def stop_target(self) -> None:
        # This machine stays up. Without /proc, the pipes of killed shells are removed here.
        if not os.path.exists("/proc/self/fd"):  # noqa: PTH110  # commands do without pathlib
            import glob
            import shutil

            for left in glob.glob(f"{os.environ.get('TMPDIR') or '/tmp'}/hermes-{self.id}-*"):  # noqa: PTH207, S108
                shutil.rmtree(left, ignore_errors=True)

    async def has_no_process(self, marker: str, but: Collection[int]) -> bool:
        brands = brands_of(self.id) if marker == f"{self.id}/" else range(0)
        return await finds_none(ProcessSearch(marker, brands, but))

    def hunt(self, marker: str, brand: str | None) -> None:
        # Ends a fork bomb whose processes fork and exit.
        kill_new(marker, brand)

    def new_process_check(self, brand: int | None) -> Callable[[str], Awaitable[bool]]:
        return NewProcesses(brand).may_have

    def describe_target(self, cwd: str) -> Target:
        from environments.target import Target, this_machine  # imported late: rarely needed

        here = this_machine()
        return Target("local", "machine", here, here, here, (self.capabilities.shell,))

    def find_address(self, port: int) -> Address:
        from environments.target import Address  # imported late: rarely needed

        self.ensure_started()
        return Address("127.0.0.1", port)

    @cached_property
    def files(self) -> LocalFiles:
        # Files need no command here.
        from environments.local.files import LocalFiles  # imported late: brings pathlib, which commands do without

        return LocalFiles(self)

    async def absolute(self, path: str) -> str:
        """Make a path absolute, keeping a trailing slash. The session's directory is not created."""
        await self.life.ensure_started()
        if path == "~" or path.startswith("~/"):
            return f"{os.path.expanduser('~')}{path[1:]}"  # noqa: PTH111  # commands do without pathlib
        if path.startswith("/"):
            return path
        place = await self.session_of_execute.variable("PWD", sourced=False)
        if not os.path.isdir(place):  # noqa: PTH112  # the same
            raise TerminalError(f"cannot take {path} from the session's directory {place}, which no longer exists")
        return f"{place}/{path}"
