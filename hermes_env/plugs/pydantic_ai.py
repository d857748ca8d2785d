"""Workspaces for pydantic-ai on every backend, see docs/plugs/pydantic_ai.md."""

from __future__ import annotations

import math
import posixpath
import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, TypeVar

from pydantic_ai import workspaces

from environments import EnvironmentLostError, EnvironmentStartError, FileStatus, TerminalError, create_environment
from hermes_env.plugs.awaiting import Threads
from hermes_env.plugs.workplaces import attaching, own_directory

_PROVIDER = "hermes-"
_Variables = Mapping[str, str] | None
_Answer = TypeVar("_Answer")


class HermesWorkspace:
    """A target, and the directory in it that commands start in. It is there until `close`, or this process's end.

    Args:
        backend: A backend's name; None is the configured one, or that of `ref`.
        ref: The `ref` of the workspace to attach to, which `close` leaves as it is; None is a new one.
        settings: Of `create_environment`; with `ref`, those that only a new target has are passed over.
    """

    def __init__(
        self, backend: str | None = None, *, ref: workspaces.WorkspaceRef | None = None, **settings: object
    ) -> None:
        arguments: dict[str, Any] = {"backend": backend, **settings}
        if ref:
            name, (id, slash, place) = ref.provider.removeprefix(_PROVIDER), ref.id.partition("/")
            arguments = {**attaching(name, id, settings), "cwd": slash + place}
        self.env = create_environment(**arguments)
        self.ref = ref
        """What the workspace is found by again, in this process or another; None until there is one."""
        self._place = ""
        self._gone = ""  # why, once it is: the environment itself would go on in another target
        self._starting, self._threads = threading.Lock(), Threads()

    def _in_place(self, function: Callable[..., _Answer], /, *args: object, **kwargs: object) -> _Answer:
        with self._starting:  # whichever thread it is, also one that nobody waits for any more
            if not self._place:
                place = own_directory(self.env)
                ref = workspaces.WorkspaceRef(provider=_PROVIDER + self.env.backend, id=self.env.target.id + place)
                if self.ref not in (None, ref):
                    raise EnvironmentLostError(f"there is no {self.ref}, but {ref}")
                self.ref, self._place = ref, place
        return function(*args, **kwargs)

    async def _call(self, function: Callable[..., _Answer], *args: object, **kwargs: object) -> _Answer:
        try:
            answer = None if self._gone else await self._threads.call(self._in_place, function, *args, **kwargs)
        except (EnvironmentLostError, EnvironmentStartError) as error:
            if self.ref is None:
                raise  # there is nothing yet, and may be next time
            self._gone = self._gone or str(error)
        except TerminalError as error:
            if type(error) is TerminalError and not self._gone:
                raise OSError(str(error)) from error  # such as for a pipe
            if not self._gone:
                raise
        if self._gone:  # also when it was closed meanwhile
            raise workspaces.WorkspaceUnavailableError(self._gone)
        return answer  # type: ignore[return-value]

    async def working_dir(self) -> str:
        """Return the directory, without links in its path."""
        return await self._call(lambda: self._place)

    async def run(
        self, command: str | list[str], *, shell: bool = False, env: _Variables = None, timeout: float | None = None
    ) -> workspaces.CommandResult:
        """Run a command beside all others. What it leaves in the background goes on."""
        if isinstance(command, str) != shell:
            raise TypeError("shell text needs shell=True, and a program with its arguments must not have it")
        return await self._call(self._run, command, env, math.inf if timeout is None else timeout)

    def _run(self, command: str | list[str], env: _Variables, timeout: float) -> workspaces.CommandResult:
        result = self.env.execute_oneshot(command, cwd=self._place, env=env, timeout=timeout, stderr="separate")
        stdout, stderr = result.output, result.stderr or ""
        if result.timed_out:
            raise workspaces.WorkspaceTimeoutError(f"ended, after {timeout} s", stdout=stdout, stderr=stderr)
        if result.omitted_bytes:
            most, begun = self.env.settings.max_output_bytes, stdout[: result.omitted_at]
            raise workspaces.WorkspaceOutputLimitError("it printed more", limit=most, stdout=begun, stderr=stderr)
        if not result.ok and not self.env.exists(self._place):
            raise EnvironmentLostError(f"the directory {self._place} is gone")
        return workspaces.CommandResult(exit_code=result.exit_code, stdout=stdout, stderr=stderr)

    async def read_bytes(self, path: str) -> bytes:
        """Return what is in a file."""
        return await self._call(self.env.read_bytes, path)

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file, with the directories above it. One whose mode forbids it stays, which we would replace."""
        if (await self.run(["test", "-w", path, "-o", "!", "-e", path])).exit_code:
            raise PermissionError(path)
        await self._call(self.env.write_bytes, path, data)

    async def stat(self, path: str) -> workspaces.FileEntry:
        """Return what is known of a file or directory, or of what a link leads to."""
        return _entry(await self._call(self.env.stat, path))

    async def list_dir(self, path: str) -> list[workspaces.FileEntry]:
        """Return what is in a directory, by name."""
        found = await self._call(self.env.list_dir, path)
        links = [entry.path for entry in found if entry.is_symlink]
        told = await self.run(["sh", "-c", 'for f; do [ -d "$f" ]; echo $?; done', "sh", *links])
        codes = dict(zip(links, told.stdout.split(), strict=True))
        return [_entry(entry, leads_to_dir=codes.get(entry.path) == "0") for entry in found]

    async def make_dir(self, path: str) -> None:
        """Make a directory, with those above it."""
        await self._call(self.env.mkdir, path)

    async def remove(self, path: str) -> None:
        """Remove a file, a link, or a directory with all in it, unless the working directory is one of them."""
        parent = await self.realpath(posixpath.dirname(path))
        if f"{await self.working_dir()}/".startswith(posixpath.join(parent, posixpath.basename(path), "")):
            raise ValueError(f"{path} is the working directory, or above it")
        await self._call(self.env.remove, path, recursive=True)

    async def exists(self, path: str) -> bool:
        """Return whether there is something."""
        return await self._call(self.env.exists, path)

    async def realpath(self, path: str) -> str:
        """Return where a path leads: by GNU's program if it is there, else as pydantic-ai asks any shell."""
        found = await self.run(["realpath", "-m", "--", path])
        if found.exit_code or found.stdout.count("\n") > 1 or "\ufffd" in found.stdout:
            return await workspaces.Workspace(SimpleNamespace(run=self.run, working_dir=self.working_dir)).realpath(
                path
            )
        return found.stdout.removesuffix("\n")

    async def close(self) -> None:
        """Remove what was made. Who still uses it is told that it is unavailable."""
        self._gone = "the workspace was closed"
        await self._threads.call(self.env.cleanup)


def _entry(found: FileStatus, leads_to_dir: bool = False) -> workspaces.FileEntry:
    is_dir, size = found.is_dir or leads_to_dir, found.size if found.is_file else None
    return workspaces.FileEntry(name=found.name, path=found.path, is_dir=is_dir, size=size)
