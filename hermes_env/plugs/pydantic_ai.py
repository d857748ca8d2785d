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
from hermes_env.plugs.workspace import attach_settings, own_directory

_PROVIDER = "hermes-"
_Variables = Mapping[str, str] | None


class HermesWorkspace:
    """A target with a working directory. Both last until `close`, or until the end of this process.

    Args:
        backend: A backend's name; None is the configured backend, or the backend of `ref`.
        ref: The `ref` of an existing workspace, kept by `close`; None makes a new workspace.
        settings: Settings of `create_environment`. With `ref`, settings for new targets are ignored.
    """

    def __init__(
        self, backend: str | None = None, *, ref: workspaces.WorkspaceRef | None = None, **settings: object
    ) -> None:
        arguments: dict[str, Any] = {"backend": backend, **settings}
        if ref:
            name, (id, slash, place) = ref.provider.removeprefix(_PROVIDER), ref.id.partition("/")
            arguments = {**attach_settings(name, id, settings), "cwd": slash + place}
        self.env = AsyncEnvironment(**arguments)
        self.ref = ref
        """The reference to attach to the workspace from any process; None until the first use."""
        self._place = ""
        self._gone = ""  # the reason after a loss: the environment itself would start another target

    async def _find_place(self) -> str:
        if not self._place:  # concurrent calls find the same directory
            place = await own_directory(self.env)
            target = await self.env.target
            ref = workspaces.WorkspaceRef(provider=_PROVIDER + target.backend, id=target.id + place)
            if self.ref not in (None, ref):
                raise EnvironmentLostError(f"the workspace {self.ref} is gone; found {ref}")
            self.ref, self._place = ref, place
        return self._place

    async def _call(self, method: Callable[..., Awaitable[Any]], *args: object, **kwargs: object) -> Any:  # noqa: ANN401
        try:
            if not self._gone:
                await self._find_place()
                answer = await method(*args, **kwargs)
        except (EnvironmentLostError, EnvironmentStartError) as error:
            if self.ref is None:
                raise  # no workspace yet: the next call may succeed
            self._gone = self._gone or str(error)
        except TerminalError as error:
            if type(error) is TerminalError and not self._gone:
                raise OSError(str(error)) from error  # such as for a pipe
            if not self._gone:
                raise
        if self._gone:  # also if closed meanwhile
            raise workspaces.WorkspaceUnavailableError(self._gone)
        return answer

    async def working_dir(self) -> str:
        """Return the directory, without links in the path."""
        return await self._call(self._find_place)

    async def run(
        self, command: str | list[str], *, shell: bool = False, env: _Variables = None, timeout: float | None = None
    ) -> workspaces.CommandResult:
        """Run a command in a new shell. Its background processes continue after the return."""
        if isinstance(command, str) != shell:
            raise TypeError("give shell text with shell=True, and a list of arguments without it")
        return await self._call(self._run, command, env, math.inf if timeout is None else timeout)

    async def _run(self, command: str | list[str], env: _Variables, timeout: float) -> workspaces.CommandResult:
        result = await self.env.execute_oneshot(command, cwd=self._place, env=env, timeout=timeout, stderr="separate")
        stdout, stderr = result.output, result.stderr or ""
        if result.timed_out:
            raise workspaces.WorkspaceTimeoutError(f"ended after {timeout} s", stdout=stdout, stderr=stderr)
        if result.omitted_bytes:
            most, begun = self.env.settings.max_output_bytes, stdout[: result.omitted_at]
            message = f"the output exceeded {most} bytes"
            raise workspaces.WorkspaceOutputLimitError(message, limit=most, stdout=begun, stderr=stderr)
        if not result.ok and not await self.env.exists(self._place):
            raise EnvironmentLostError(f"the directory {self._place} is gone")
        return workspaces.CommandResult(exit_code=result.exit_code, stdout=stdout, stderr=stderr)

    async def read_bytes(self, path: str) -> bytes:
        """Return the content of a file."""
        return await self._call(self.env.read_bytes, path)

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file, with missing parent directories. A read-only file is not replaced."""
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
        tested = await self.run(["sh", "-c", 'for f; do [ -d "$f" ]; echo $?; done', "sh", *links])
        codes = dict(zip(links, tested.stdout.split(), strict=True))
        return [_entry(entry, leads_to_dir=codes.get(entry.path) == "0") for entry in found]

    async def make_dir(self, path: str) -> None:
        """Make a directory, with missing parent directories."""
        await self._call(self.env.mkdir, path)

    async def remove(self, path: str) -> None:
        """Remove a file, a link, or a directory with its contents, but not the working directory or its parents."""
        parent = await self.realpath(posixpath.dirname(path))
        if f"{await self.working_dir()}/".startswith(posixpath.join(parent, posixpath.basename(path), "")):
            raise ValueError(f"{path} is the working directory, or above it")
        await self._call(self.env.remove, path, recursive=True)

    async def exists(self, path: str) -> bool:
        """Return True if a path exists."""
        return await self._call(self.env.exists, path)

    async def realpath(self, path: str) -> str:
        """Resolve the links of a path: by GNU `realpath` in the target, or by pydantic-ai's POSIX script."""
        found = await self.run(["realpath", "-m", "--", path])
        if found.exit_code or found.stdout.count("\n") > 1 or "\ufffd" in found.stdout:
            posix = SimpleNamespace(run=self.run, working_dir=self.working_dir)
            return await workspaces.Workspace(posix).realpath(path)
        return found.stdout.removesuffix("\n")

    async def close(self) -> None:
        """Remove a new target or directory. Later calls raise WorkspaceUnavailableError."""
        self._gone = "the workspace was closed"
        await self.env.cleanup()


def _entry(found: FileStatus, leads_to_dir: bool = False) -> workspaces.FileEntry:
    is_dir, size = found.is_dir or leads_to_dir, found.size if found.is_file else None
    return workspaces.FileEntry(name=found.name, path=found.path, is_dir=is_dir, size=size)
