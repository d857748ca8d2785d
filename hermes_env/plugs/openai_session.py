"""A sandbox session of openai-agents on every backend, see docs/plugs/openai_agents.md."""

from __future__ import annotations

import contextlib
import io
import math
import tarfile
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath, PurePosixPath

from agents.sandbox import errors
from agents.sandbox.session import SandboxSessionState
from agents.sandbox.session.runtime_helpers import RuntimeHelperScript
from agents.sandbox.session.workspace_payloads import coerce_write_payload
from agents.sandbox.types import ExecResult, ExposedPortEndpoint
from agents.sandbox.util.tar_utils import UnsafeTarMemberError, validate_tarfile

from environments import BaseEnvironment, TerminalError
from hermes_env.plugs.archives import packed, unpack
from hermes_env.plugs.openai_processes import RunAs, SessionWithProcesses

_WRITE = 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1"'
_CHECK = partial(validate_tarfile, allow_external_symlink_targets=False)


class HermesSandboxSession(SessionWithProcesses):
    """A sandbox: an environment, with a workspace in it.

    Args:
        state: What the session is resumed by. The root in its manifest is there.
        env: The environment, which ends with the session.
    """

    def __init__(self, state: SandboxSessionState, env: BaseEnvironment) -> None:
        super().__init__(env)
        self.state = state

    async def exec(
        self,
        *command: str | Path,
        timeout: float | None = None,
        shell: bool | list[str] = True,
        user: RunAs = None,
    ) -> ExecResult:
        """Run a command beside all others, as another user where the target can do that."""
        return await self._run(self._prepare_exec_command(*command, shell=shell, user=None), timeout, user)

    async def _exec_internal(self, *command: str | Path, timeout: float | None = None) -> ExecResult:
        return await self._run([str(word) for word in command], timeout)

    async def _run(self, argv: list[str], limit: float | None = None, user: RunAs = None, **more: object) -> ExecResult:
        how = {"timeout": math.inf if limit is None else limit, "stderr": "separate", "binary": True, **more}
        try:
            result = await self._call(self.env.execute_oneshot, argv, **how, **await self._where(user))
        except TerminalError as error:
            raise errors.ExecTransportError(command=argv, cause=error, message=str(error)) from error
        if result.timed_out:
            raise errors.ExecTimeoutError(command=argv, timeout_s=limit)
        lack = f"\n[{result.omitted_bytes} bytes of output omitted]\n" if result.omitted_bytes else ""
        stderr = (result.stderr_bytes or b"") + lack.encode()
        return ExecResult(stdout=result.output_bytes or b"", stderr=stderr, exit_code=result.exit_code)

    async def _ensure_runtime_helper_installed(self, helper: RuntimeHelperScript) -> PurePath:
        """Put a script of openai-agents where it goes with the session, and not where it would stay on a host."""
        place = PurePosixPath(await self._call(self.env.internal.scratch_directory), helper.name)
        return await super()._ensure_runtime_helper_installed(replace(helper, install_path=place))

    def _snapshot_fingerprint_cache_path(self) -> Path:
        return Path(self.env.internal.scratch_directory(), "fingerprint.json")  # there is one by now, for a script

    async def _validate_path_access(self, path: Path | str, *, for_write: bool = False) -> Path:
        return await self._validate_remote_path_access(path, for_write=for_write)

    async def read(self, path: Path, *, user: RunAs = None) -> io.IOBase:
        """Return a file, for reading."""
        if user is None:
            return io.BytesIO(await self._read_bounded(path))
        place = await self._validate_path_access(path)
        argv = ["cat", "--", str(place)]
        read = await self._run(argv, user=user, max_output_bytes=2**40)
        if not read.ok():
            where = {"path": path, "workspace_path": place}
            await self._raise_read_error_from_exec(**where, command=argv, result=read, user=user)
        return io.BytesIO(read.stdout)

    async def _read_bounded(self, path: Path, *, max_bytes: int | None = None) -> bytes:
        place = await self._validate_path_access(path)
        try:
            return await self._call(self.env.read_bytes, str(place), limit=max_bytes)
        except FileNotFoundError as error:
            raise errors.WorkspaceReadNotFoundError(path=path, cause=error) from error
        except TerminalError as error:
            raise errors.WorkspaceArchiveReadError(path=path, cause=error) from error

    async def write(self, path: Path, data: io.IOBase, *, user: RunAs = None) -> None:
        """Write a file, with the directories above it."""
        place = str(await self._validate_path_access(path, for_write=True))
        content = coerce_write_payload(path=path, data=data).stream.read()
        if user is not None:
            written = await self._run(["sh", "-c", _WRITE, "sh", place], user=user, stdin=content)
            if not written.ok():
                raise errors.WorkspaceArchiveWriteError(path=path, context={"stderr": written.stderr.decode()})
            return
        try:
            await self._call(self.env.write_bytes, place, content)
        except TerminalError as error:
            raise errors.WorkspaceArchiveWriteError(path=path, cause=error) from error

    async def running(self) -> bool:
        """Return whether the target is there."""
        with contextlib.suppress(errors.SandboxError):
            return (await self._run(["true"])).ok()
        return False

    async def persist_workspace(self) -> io.IOBase:
        """Return the workspace as a tar archive."""
        root = self.state.manifest.root
        try:
            return await self._call(packed, self.env, root, self._persist_workspace_skip_relpaths())
        except TerminalError as error:
            raise errors.WorkspaceArchiveReadError(path=Path(root), cause=error) from error

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        """Unpack a tar archive into the workspace."""
        root = self.state.manifest.root
        try:
            await self._call(unpack, self.env, data, root, _CHECK)
        except (UnsafeTarMemberError, tarfile.TarError, OSError, TerminalError) as error:
            raise errors.WorkspaceArchiveWriteError(path=Path(root), cause=error) from error

    async def _resolve_exposed_port(self, port: int) -> ExposedPortEndpoint:
        try:
            found = await self._call(self.env.address, port)
        except TerminalError as error:
            why = {"reason": "backend_unavailable", "exposed_ports": self.state.exposed_ports}
            raise errors.ExposedPortUnavailableError(port=port, cause=error, **why) from error
        return ExposedPortEndpoint(host=found.host, port=found.port, tls=found.url.startswith("https:"))

    async def _shutdown_backend(self) -> None:
        await self._threads.call(self.env.cleanup)
