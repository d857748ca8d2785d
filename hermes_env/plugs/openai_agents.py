"""openai-agents on every backend: an executor for its `ShellTool`, and sandboxes. See docs/agents.md."""

from __future__ import annotations

import contextlib
import io
import math
import tarfile
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath, PurePosixPath
from shutil import copyfileobj
from typing import IO, Any, Literal, TypeAlias

import anyio.to_thread
from agents import ShellCallOutcome, ShellCommandOutput, ShellCommandRequest, ShellResult
from agents.sandbox import Manifest, errors
from agents.sandbox import session as sessions
from agents.sandbox.session import pty_types
from agents.sandbox.session.runtime_helpers import RuntimeHelperScript
from agents.sandbox.session.workspace_payloads import coerce_write_payload
from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec, resolve_snapshot
from agents.sandbox.types import ExecResult, ExposedPortEndpoint, User
from agents.sandbox.util.tar_utils import UnsafeTarMemberError, validate_tarfile
from pydantic import Field

from environments import BaseEnvironment, EnvironmentLostError, TerminalError
from hermes_env.aio import AsyncEnvironment, AsyncProcess
from hermes_env.plugs.workspace import attach_settings, own_directory

_RunAs: TypeAlias = str | User | None
_WRITE = 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1"'
_IN_MEMORY = 16 * 1024 * 1024
"""Bytes of an archive to keep in memory; a larger archive is in a file until closed."""


class HermesShell:
    """Runs the commands of shell calls in an environment: `ShellTool(executor=HermesShell(env))`.

    The commands of a call run one after another. Several calls may run at once. The environment's settings remove
    secrets and terminal controls from the output.

    Args:
        env: The environment, cleaned up by the caller.
        session: True to run commands in the environment's session, with shared directory, exports and functions.
    """

    def __init__(self, env: BaseEnvironment | AsyncEnvironment, *, session: bool = False) -> None:
        self.env = env if isinstance(env, AsyncEnvironment) else AsyncEnvironment.of(env)
        self._run = self.env.execute if session else self.env.execute_oneshot

    async def __call__(self, request: ShellCommandRequest) -> ShellResult:
        """Run commands in order, until a time-out.

        Raises:
            TerminalError: The environment could not be started, or was lost.
        """
        action, outputs = request.data.action, []
        timeout = (action.timeout_ms or 0) / 1000 or None  # None is the limit of the settings
        for command in action.commands:
            result = await self._run(command, timeout=timeout, stderr="separate")
            view = self.env.sync.model_view()
            stdout, stderr = view.captured(result.captured).with_count(), view.output(result.stderr or "")
            outcome = ShellCallOutcome("timeout" if result.timed_out else "exit", result.exit_code)
            outputs.append(ShellCommandOutput(stdout, stderr, outcome, command))
            if result.timed_out:
                break
        return ShellResult(outputs, action.max_output_length)


class HermesSandboxClientOptions(sessions.BaseSandboxClientOptions):
    """The backend of sandboxes: `HermesSandboxClientOptions("docker", {"image": "python:3.12-slim"})`."""

    type: Literal["hermes"] = "hermes"
    backend: str | None = None
    """A backend's name; None is the configured backend."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of `create_environment`. A session's state contains them, so name secrets, but do not include any."""
    exposed_ports: tuple[int, ...] = ()
    """The ports available to the agent."""


class HermesSandboxSessionState(sessions.SandboxSessionState):
    """The state for the resume of a session."""

    type: Literal["hermes"] = "hermes"
    options: HermesSandboxClientOptions
    target_id: str = ""
    names_root: bool = False
    """True if the manifest named a root. The target's own directory replaces the default root."""


@dataclass
class _Running:
    process: AsyncProcess
    has_terminal: bool
    used: float = field(default_factory=time.monotonic)


class HermesSandboxSession(sessions.BaseSandboxSession):
    """A sandbox: an environment with a workspace directory.

    Args:
        state: The state for a resume. The root of its manifest exists in the target.
        env: The environment, cleaned up at the end of the session.
    """

    _fingerprints: Path | None = None
    """The file with the workspace's fingerprint; None until the script for fingerprints was installed."""

    def __init__(self, state: sessions.SandboxSessionState, env: AsyncEnvironment) -> None:
        self.state, self.env = state, env
        self._is_lost = False
        self._commands: dict[int, _Running] = {}

    async def _call(self, method: Callable[..., Awaitable[Any]], /, *args: object, **kwargs: object) -> Any:  # noqa: ANN401
        if self._is_lost:  # the environment itself would start another target
            raise EnvironmentLostError("the sandbox is gone")
        try:
            return await method(*args, **kwargs)
        except EnvironmentLostError:
            self._is_lost = True
            raise

    async def _run(self, method: Callable[..., Awaitable[Any]], argv: list[str], user: _RunAs, **how: object) -> Any:  # noqa: ANN401
        manifest, name = self.state.manifest, user.name if isinstance(user, User) else user
        try:
            variables = await manifest.environment.resolve()
            return await self._call(method, argv, cwd=manifest.root, env=variables, user=name, **how)
        except TerminalError as error:
            raise errors.ExecTransportError(command=argv, cause=error, message=str(error)) from error

    async def _exec(
        self, argv: list[str], limit: float | None = None, user: _RunAs = None, **more: object
    ) -> ExecResult:
        how = {"timeout": math.inf if limit is None else limit, "stderr": "separate", "binary": True, **more}
        result = await self._run(self.env.execute_oneshot, argv, user, **how)
        if result.timed_out:
            raise errors.ExecTimeoutError(command=argv, timeout_s=limit)
        lack = f"\n[{result.omitted_bytes} bytes of output omitted]\n" if result.omitted_bytes else ""
        stderr = (result.stderr_bytes or b"") + lack.encode()
        return ExecResult(stdout=result.output_bytes or b"", stderr=stderr, exit_code=result.exit_code)

    async def exec(
        self,
        *command: str | Path,
        timeout: float | None = None,
        shell: bool | list[str] = True,
        user: _RunAs = None,
    ) -> ExecResult:
        # Outside the session, so that commands run side by side; as another user if the backend supports that.
        return await self._exec(self._prepare_exec_command(*command, shell=shell, user=None), timeout, user)

    async def _exec_internal(self, *command: str | Path, timeout: float | None = None) -> ExecResult:
        return await self._exec([str(word) for word in command], timeout)

    def supports_pty(self) -> bool:
        return True  # a backend without terminals raises on the start of one

    async def pty_exec_start(
        self,
        *command: str | Path,
        timeout: float | None = None,
        shell: bool | list[str] = True,
        user: _RunAs = None,
        tty: bool = False,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> pty_types.PtyExecUpdate:
        # Returns the output at the end of the command, or after `yield_time_s`; the command then continues.
        argv = self._prepare_exec_command(*command, shell=shell, user=None)
        process = await self._run(self.env.start, argv, user, pty=tty, stdin="open" if tty else "none")
        key = pty_types.allocate_pty_process_id(set(self._commands))
        self._commands[key] = _Running(process, tty)
        if len(self._commands) > pty_types.PTY_PROCESSES_MAX:
            known = [(key, kept.used, not kept.process.running) for key, kept in self._commands.items()]
            if oldest := pty_types.process_id_to_prune_from_meta(known):
                await self._commands.pop(oldest).process.kill()
        wait = 10_000 if yield_time_s is None else int(yield_time_s * 1000)
        return await self._update(key, pty_types.clamp_pty_yield_time_ms(wait), max_output_tokens)

    async def pty_write_stdin(
        self,
        *,
        session_id: int,
        chars: str,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> pty_types.PtyExecUpdate:
        kept = self._resolve_pty_session_entry(pty_processes=self._commands, session_id=session_id)
        if chars and not kept.has_terminal:
            raise RuntimeError("stdin is not available for this process")  # openai-agents compares this text
        if chars:
            with contextlib.suppress(BrokenPipeError):  # the command has ended; the update has the exit code
                await kept.process.write(chars)
        kept.used = time.monotonic()
        wait = 250 if yield_time_s is None else int(yield_time_s * 1000)
        wait = pty_types.resolve_pty_write_yield_time_ms(yield_time_ms=wait, input_empty=not chars)
        return await self._update(session_id, wait, max_output_tokens)

    async def _update(self, key: int, milliseconds: int, tokens: int | None) -> pty_types.PtyExecUpdate:
        process = self._commands[key].process
        try:
            code = await self._call(process.wait, milliseconds / 1000)
        except TerminalError as error:
            raise errors.ExecTransportError(command=(), cause=error, message=str(error)) from error
        text, count = pty_types.truncate_text_by_tokens(await process.read(), tokens)
        if code is not None:
            del self._commands[key]
        return pty_types.PtyExecUpdate(key if code is None else None, text.encode(), code, count)

    async def pty_terminate_all(self) -> None:
        while self._commands:
            _, kept = self._commands.popitem()
            with contextlib.suppress(TerminalError):  # the target was lost, with the commands
                await kept.process.kill()

    # Files, archives and ports.

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

    async def read(self, path: Path, *, user: _RunAs = None) -> io.IOBase:
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

    async def write(self, path: Path, data: io.IOBase, *, user: _RunAs = None) -> None:
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

        def keep(piece: bytes, channel: str) -> None:
            if channel == "stdout":
                archive.write(piece)

        argv = ["tar", "-C", root, *left_out, "-cf", "-", "."]
        packed = await self._exec(argv, max_output_bytes=4096, on_output=keep)
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


class HermesSandboxClient(sessions.BaseSandboxClient[HermesSandboxClientOptions]):
    """Makes sandboxes: `SandboxRunConfig(client=HermesSandboxClient("docker", image="python:3.12-slim"))`.

    Args:
        backend: A backend's name; None is the configured backend.
        instrumentation: As for openai-agents' own clients.
        settings: Settings of `create_environment`, for runs without options of their own.
    """

    backend_id = "hermes"
    supports_default_options = True

    def __init__(
        self, backend: str | None = None, *, instrumentation: sessions.Instrumentation | None = None, **settings: object
    ) -> None:
        self._options = HermesSandboxClientOptions(backend, settings)
        self._instrumentation = instrumentation or sessions.Instrumentation()

    async def create(
        self,
        *,
        snapshot: SnapshotSpec | SnapshotBase | None = None,
        manifest: Manifest | None = None,
        options: HermesSandboxClientOptions | None = None,
    ) -> sessions.SandboxSession:
        options, manifest, id = options or self._options, manifest or Manifest(), uuid.uuid4()
        self._validate_manifest_for_create(manifest)
        state = HermesSandboxSessionState(
            session_id=id,
            snapshot=resolve_snapshot(snapshot, str(id)),
            manifest=manifest,
            exposed_ports=options.exposed_ports,
            options=options,
            names_root=manifest.root != Manifest().root,
        )
        return await self._new(state)

    async def resume(self, state: sessions.SandboxSessionState) -> sessions.SandboxSession:
        # In the target of the state, kept at the end of the session; or in a new target if that is lost.
        if not isinstance(state, HermesSandboxSessionState):
            raise TypeError(f"the state belongs to backend {state.type!r}, not to {self.backend_id!r}")
        state.assert_path_grants_rebound()
        env = AsyncEnvironment(**attach_settings(state.options.backend, state.target_id, state.options.settings))
        with contextlib.suppress(TerminalError):
            if (await env.target).id == state.target_id and (await env.stat(state.manifest.root)).is_dir:
                sandbox = HermesSandboxSession(state, env)
                sandbox._set_start_state_preserved(True)
                return self._wrap_session(sandbox, instrumentation=self._instrumentation)
        await env.cleanup()
        return await self._new(state)

    async def _new(self, state: HermesSandboxSessionState) -> sessions.SandboxSession:
        """Start a new target for a state, and store the target's id in the state."""
        env = AsyncEnvironment(state.options.backend, **state.options.settings)
        try:
            root = state.manifest.root if state.names_root else await own_directory(env)
            await env.mkdir(root)
            state.target_id, state.workspace_root_ready = (await env.target).id, False
        except BaseException:
            await env.cleanup()
            raise
        state.manifest = state.manifest.model_copy(update={"root": root})
        return self._wrap_session(HermesSandboxSession(state, env), instrumentation=self._instrumentation)

    async def delete(self, session: sessions.SandboxSession) -> sessions.SandboxSession:
        await session.shutdown()
        return session

    def deserialize_session_state(self, payload: dict[str, object]) -> sessions.SandboxSessionState:
        return self._deserialize_session_state_payload(payload, HermesSandboxSessionState)


def _copy_checked(data: io.IOBase, here: IO[bytes]) -> None:
    """Copy an archive to a file, and check that no member leads out of a workspace."""
    copyfileobj(data, here)
    here.seek(0)
    with tarfile.open(fileobj=here) as members:
        validate_tarfile(members, allow_external_symlink_targets=False)
