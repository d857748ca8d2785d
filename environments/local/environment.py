"""Commands on this machine."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from environments.arguments import checked_data, checked_limit, checked_mode, checked_path, checked_removable
from environments.base import BaseEnvironment
from environments.errors import TerminalError, UnsupportedError
from environments.local.bearers import has_none
from environments.local.settings import LocalSettings
from environments.settings import EnvironmentSettings
from environments.shell.child_stream import ChildStream
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.stream import Stream, Terminal
from environments.sources import load_settings
from environments.target_files import TargetPath

if TYPE_CHECKING:
    from pathlib import Path

    from environments.address import Address
    from environments.file_status import FileStatus
    from environments.found_target import FoundTarget
    from environments.local.entries import LocalEntry
    from environments.local.files import LocalFile
    from environments.owner import Orphan
    from environments.target import Target


class LocalEnvironment(PersistentShellEnvironment):
    """Runs commands on this machine, as this user, with this process's environment."""

    backend = "local"
    settings_class = LocalSettings
    same_machine = True

    def __init__(self, settings: EnvironmentSettings) -> None:
        if LocalSettings.of(settings).sandbox != "none":
            raise UnsupportedError(
                "LocalEnvironment has no sandbox, and local_sandbox asks for one; make it with create_environment"
            )
        super().__init__(settings)

    @classmethod
    def create(cls, settings: EnvironmentSettings) -> BaseEnvironment:
        """Build an environment, in a sandbox if the settings ask for one, see `BaseEnvironment`."""
        if LocalSettings.of(settings).sandbox == "none":
            return cls(settings)
        from environments.local.bubblewrap.environment import SandboxedEnvironment  # most never need it

        return SandboxedEnvironment(settings)

    @classmethod
    def probe(cls, settings: EnvironmentSettings) -> str:
        """Look whether there can be a sandbox, see `BaseEnvironment`. There has to be one only if it is asked for."""
        from environments.local.bubblewrap.refusal import trial

        if LocalSettings.of(settings).sandbox != "none":
            return f"in a sandbox: {trial()}"
        try:
            return f"a sandbox can be had: {trial()}"
        except TerminalError as error:
            return str(error)

    @classmethod
    def find_orphans(cls) -> Iterator[Orphan]:
        """Find what environments, of any backend, have left on this machine outside of containers."""
        from environments.shell.garbage import orphans_in  # most never look

        with LocalEnvironment(load_settings("local", sandbox="none")) as env:
            yield from orphans_in(env)

    @classmethod
    def find_targets(cls) -> Iterator[FoundTarget]:
        """Go through what environments, of any backend, have on this machine outside of containers."""
        from environments.shell.listing import environments_on  # most never look

        return environments_on(lambda: LocalEnvironment(load_settings("local", sandbox="none")))

    async def start_target(self) -> None:
        """Do nothing: this machine is up."""

    async def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a child process, see `PersistentShellEnvironment`."""
        return ChildStream(argv, terminal=terminal)

    async def stop_target(self) -> None:
        """Do nothing: this machine stays up."""

    def has_no_process(self, marker: str, but: Collection[int]) -> bool:
        """Look through the processes of this machine, see `PersistentShellEnvironment`."""
        return has_none(marker, but)

    def describe_target(self, cwd: str) -> Target:
        """Say which machine this is, see `PersistentShellEnvironment`. Who reads that is in it."""
        from environments.target import Target, this_machine  # most never ask for it

        here = this_machine()
        return Target("local", "machine", here, here, here, (self.capabilities.shell,))

    def find_address(self, port: int) -> Address:
        """Return where a port of this machine can be reached, see `BaseEnvironment.address`."""
        from environments.address import Address  # most never ask for one

        self.ensure_started()
        return Address("127.0.0.1", port)

    def write_bytes(self, path: TargetPath, data: bytes) -> None:
        """Write a file, see `TargetFiles`."""
        content = checked_data(data)
        self._file(path).write(content)

    def read_bytes(self, path: TargetPath, limit: int | None = None) -> bytes:
        """Return a file, see `TargetFiles`."""
        most = checked_limit(limit)
        return self._file(path).read(most)

    def put_file(self, local: str | Path, remote: TargetPath) -> None:
        """Copy a file, see `TargetFiles`."""
        self._file(remote).put(local, self.progress)

    def get_file(self, remote: TargetPath, local: str | Path) -> None:
        """Copy a file, see `TargetFiles`."""
        self._file(remote).get(local, self.progress)

    def stat(self, path: TargetPath, *, follow_symlinks: bool = True) -> FileStatus:
        """Return what is at a path, see `TargetFiles`."""
        return self._entry(path).stat(follow=follow_symlinks)

    def list_dir(self, path: TargetPath = ".") -> list[FileStatus]:
        """Return what is in a directory, see `TargetFiles`."""
        return self._entry(path).listed()

    def mkdir(self, path: TargetPath, *, parents: bool = True, exist_ok: bool = True, mode: int | None = None) -> None:
        """Make a directory, see `TargetFiles`."""
        bits = checked_mode(mode)
        self._entry(path).make(parents=parents, exist_ok=exist_ok, mode=bits)

    def remove(self, path: TargetPath, *, recursive: bool = False, missing_ok: bool = False) -> None:
        """Remove what is at a path, see `TargetFiles`."""
        try:
            self._entry(checked_removable(path)).remove(recursive=recursive, missing_ok=missing_ok)
        except RecursionError:  # Python's own way calls itself for each level
            super().remove(path, recursive=recursive, missing_ok=missing_ok)

    def exists(self, path: TargetPath) -> bool:
        """Return whether something is at a path, see `TargetFiles`."""
        return self._entry(path).exists()

    async def write_scratch(self, path: str, data: bytes) -> None:
        """Write a file of ours, see `PersistentShellEnvironment`."""
        from environments.local.files import LocalFile  # most commands need no file

        LocalFile(path, path).write(data, 0o600)

    def _file(self, path: TargetPath) -> LocalFile:
        from environments.local.files import LocalFile  # which brings pathlib, and commands do without

        given = checked_path(path)
        return LocalFile(given, self._place(given))

    def _entry(self, path: TargetPath) -> LocalEntry:
        from environments.local.entries import LocalEntry  # the same

        given = checked_path(path)
        return LocalEntry(given, self._place(given))

    def _place(self, path: str) -> str:
        """Return a path as an absolute one, with the slash that it may end in. The session's directory is not made."""
        self.ensure_started()
        if path == "~" or path.startswith("~/"):
            return f"{os.path.expanduser('~')}{path[1:]}"  # noqa: PTH111  # commands do without pathlib
        if path.startswith("/"):
            return path
        if not os.path.isdir(place := self.cwd):  # noqa: PTH112  # the same
            raise TerminalError(f"cannot take {path} from the session's directory {place}, which is not there any more")
        return f"{place}/{path}"
