"""Workspaces for pydantic-ai on every backend, see docs/agents.md."""

from __future__ import annotations

import math
import posixpath
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any

from pydantic_ai import workspaces

from environments import EnvironmentLostError, EnvironmentStartError, FileStatus, TerminalError
from hermes_env.aio import AsyncEnvironment
from hermes_env.plugs.workplaces import attaching, own_directory

_PROVIDER = "hermes-"
_Variables = Mapping[str, str] | None


class HermesWorkspace:
    """A target with a directory in which commands start. Both last until `close`, or until this process ends.

    Args:
        backend: A backend's name; None is the configured one, or that of `ref`.
        ref: The `ref` of a workspace to attach to, which `close` then leaves as it is; None makes a new workspace.
        settings: Settings of `create_environment`. With `ref`, those that only a new target has are ignored.
    """

    def __init__(
        self, backend: str | None = None, *, ref: workspaces.WorkspaceRef | None = None, **settings: object
    ) -> None:
        arguments: dict[str, Any] = {"backend": backend, **settings}
        if ref:
            name, (id, slash, place) = ref.provider.removeprefix(_PROVIDER), ref.id.partition("/")
            arguments = {**attaching(name, id, settings), "cwd": slash + place}
        self.env = AsyncEnvironment(**arguments)
        self.ref = ref
        """The reference by which the workspace is found again, in this process or another; None until there is one."""
        self._place = ""
        self._gone = ""  # why, once it is: the environment itself would go on in another target

    async def _find_place(self) -> str:
        if not self._place:  # several calls at once find the same
            place = await own_directory(self.env)
            target = await self.env.target
            ref = workspaces.WorkspaceRef(provider=_PROVIDER + target.backend, id=target.id + place)
            if self.ref not in (None, ref):
                raise EnvironmentLostError(f"there is no {self.ref}, but {ref}")
            self.ref, self._place = ref, place
        return self._place

    async def _call(self, method: Callable[..., Awaitable[Any]], *args: object, **kwargs: object) -> Any:  # noqa: ANN401
        try:
            if not self._gone:
                await self._find_place()
                answer = await method(*args, **kwargs)
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
        return answer

    async def working_dir(self) -> str:
        """Return the directory, without links in its path."""
        return await self._call(self._find_place)

    async def run(
        self, command: str | list[str], *, shell: bool = False, env: _Variables = None, timeout: float | None = None
    ) -> workspaces.CommandResult:
        """Run a command beside all others. Processes that it leaves in the background go on."""
        if isinstance(command, str) != shell:
            raise TypeError("shell text needs shell=True, and a program with its arguments must not have it")
        return await self._call(self._run, command, env, math.inf if timeout is None else timeout)

    async def _run(self, command: str | list[str], env: _Variables, timeout: float) -> workspaces.CommandResult:
        how: dict[str, Any] = {"cwd": self._place, "env": env, "timeout": timeout, "stderr": "separate"}
        result = await self.env.execute_oneshot(command, **how)
        stdout, stderr = result.output, result.stderr or ""
        if result.timed_out:
            raise workspaces.WorkspaceTimeoutError(f"ended, after {timeout} s", stdout=stdout, stderr=stderr)
        if result.omitted_bytes:
            most, begun = self.env.settings.max_output_bytes, stdout[: result.omitted_at]
            raise workspaces.WorkspaceOutputLimitError("it printed more", limit=most, stdout=begun, stderr=stderr)
        if not result.ok and not await self.env.exists(self._place):
            raise EnvironmentLostError(f"the directory {self._place} is gone")
        return workspaces.CommandResult(exit_code=result.exit_code, stdout=stdout, stderr=stderr)

    async def read_bytes(self, path: str) -> bytes:
        """Return the content of a file."""
        return await self._call(self.env.read_bytes, path)

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file, with the directories above it. A file whose mode forbids writing is not replaced."""
        if (await self.run(["test", "-w", path, "-o", "!", "-e", path])).exit_code:
            raise PermissionError(path)
        await self._call(self.env.write_bytes, path, data)

    async def stat(self, path: str) -> workspaces.FileEntry:
        """Return the facts of a file or directory, or of the target of a link."""
        return _entry(await self._call(self.env.stat, path))

    async def list_dir(self, path: str) -> list[workspaces.FileEntry]:
        """Return the entries of a directory, by name."""
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
        """Return whether a path exists."""
        return await self._call(self.env.exists, path)

    async def realpath(self, path: str) -> str:
        """Resolve the links of a path: by GNU `realpath` if the target has it, else by pydantic-ai's POSIX script."""
        found = await self.run(["realpath", "-m", "--", path])
        if found.exit_code or found.stdout.count("\n") > 1 or "\ufffd" in found.stdout:
            posix = SimpleNamespace(run=self.run, working_dir=self.working_dir)
            return await workspaces.Workspace(posix).realpath(path)
        return found.stdout.removesuffix("\n")

    async def close(self) -> None:
        """Remove the target or directory that was made. Later calls raise WorkspaceUnavailableError."""
        self._gone = "the workspace was closed"
        await self.env.cleanup()


def _entry(found: FileStatus, leads_to_dir: bool = False) -> workspaces.FileEntry:
    is_dir, size = found.is_dir or leads_to_dir, found.size if found.is_file else None
    return workspaces.FileEntry(name=found.name, path=found.path, is_dir=is_dir, size=size)
