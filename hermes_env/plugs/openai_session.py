"""The files, archives and ports of an openai-agents sandbox session."""

from __future__ import annotations

import contextlib
import io
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path, PurePath, PurePosixPath
from shutil import copyfileobj
from typing import IO

import anyio.to_thread
from agents.sandbox import errors
from agents.sandbox.session.runtime_helpers import RuntimeHelperScript
from agents.sandbox.session.workspace_payloads import coerce_write_payload
from agents.sandbox.types import ExposedPortEndpoint
from agents.sandbox.util.tar_utils import UnsafeTarMemberError, validate_tarfile

from environments import TerminalError
from hermes_env.plugs.openai_commands import CommandSession, RunAs

_WRITE = 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1"'
_IN_MEMORY = 16 * 1024 * 1024
"""Bytes of an archive to keep in memory; a larger archive is in a file until closed."""


class HermesSandboxSession(CommandSession):
    """A sandbox: an environment with a workspace directory.

    Args:
        state: The state for a resume. The root of its manifest exists in the target.
        env: The environment, cleaned up at the end of the session.
    """

    _fingerprints: Path | None = None
    """The file with the workspace's fingerprint; None until the script for fingerprints was installed."""

    async def _ensure_runtime_helper_installed(self, helper: RuntimeHelperScript) -> PurePath:
        # In the scratch directory, removed with the session: openai-agents' own directory would stay on a host.
        place = PurePosixPath(await self._call(self.env.scratch_directory), helper.name)
        self._fingerprints = Path(place.parent, "fingerprint.json")
        return await super()._ensure_runtime_helper_installed(replace(helper, install_path=place))

    def _snapshot_fingerprint_cache_path(self) -> Path:
        return self._fingerprints or super()._snapshot_fingerprint_cache_path()

    async def _validate_path_access(self, path: Path | str, *, for_write: bool = False) -> Path:
        # Resolve links, which may lead out of the workspace: the base class checks only the text of the path.
        return await self._validate_remote_path_access(path, for_write=for_write)

    async def read(self, path: Path, *, user: RunAs = None) -> io.IOBase:
        if user is None:
            return io.BytesIO(await self._read_bounded(path))
        place = await self._validate_path_access(path)
        argv = ["cat", "--", str(place)]
        read = await self._exec(argv, user=user, max_output_bytes=2**40)
        if not read.ok():
            await self._raise_read_error_from_exec(
                path=path, workspace_path=place, command=argv, result=read, user=user
            )
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
        place = str(await self._validate_path_access(path, for_write=True))
        content = coerce_write_payload(path=path, data=data).stream.read()
        try:
            if user is None:
                await self._call(self.env.write_bytes, place, content)
            elif not (written := await self._exec(["sh", "-c", _WRITE, "sh", place], user=user, stdin=content)).ok():
                raise TerminalError(f"cannot write {place}: {written.stderr.decode()}")
        except TerminalError as error:
            raise errors.WorkspaceArchiveWriteError(path=path, cause=error) from error

    async def running(self) -> bool:
        with contextlib.suppress(errors.SandboxError):
            return (await self._exec(["true"])).ok()
        return False

    async def persist_workspace(self) -> io.IOBase:
        root, archive = self.state.manifest.root, tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  # the caller's
        left_out = [f"--exclude=./{path.as_posix()}" for path in self._persist_workspace_skip_relpaths()]

        def store(piece: bytes, channel: str) -> None:
            if channel == "stdout":
                archive.write(piece)

        argv = ["tar", "-C", root, *left_out, "-cf", "-", "."]
        packed = await self._exec(argv, max_output_bytes=4096, on_output=store)
        if not packed.ok():
            archive.close()
            raise errors.WorkspaceArchiveReadError(path=Path(root), context={"stderr": packed.stderr.decode()})
        archive.seek(0)
        return archive

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        root = self.state.manifest.root
        try:
            with tempfile.NamedTemporaryFile() as here:
                await anyio.to_thread.run_sync(_copy_checked, data, here)
                there = f"{await self._call(self.env.scratch_directory)}/unpacked.tar"
                await self._call(self.env.put_file, here.name, there)
            await self._exec_checked_nonzero("tar", "-C", root, "-xf", there)
            await self._call(self.env.remove, there)
        except (UnsafeTarMemberError, tarfile.TarError, OSError, TerminalError, errors.ExecNonZeroError) as error:
            raise errors.WorkspaceArchiveWriteError(path=Path(root), cause=error) from error

    async def _resolve_exposed_port(self, port: int) -> ExposedPortEndpoint:
        try:
            found = await self._call(self.env.address, port)
        except TerminalError as error:
            why = {"reason": "backend_unavailable", "exposed_ports": self.state.exposed_ports}
            raise errors.ExposedPortUnavailableError(port=port, cause=error, **why) from error
        return ExposedPortEndpoint(host=found.host, port=found.port, tls=found.url.startswith("https:"))

    async def _shutdown_backend(self) -> None:
        await self.env.cleanup()


def _copy_checked(data: io.IOBase, here: IO[bytes]) -> None:
    """Copy an archive to a file, and check that no member leads out of a workspace."""
    copyfileobj(data, here)
    here.seek(0)
    with tarfile.open(fileobj=here) as members:
        validate_tarfile(members, allow_external_symlink_targets=False)
