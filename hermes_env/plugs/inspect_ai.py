"""Sandboxes for inspect_ai on every backend: `sandbox="hermes"`, see docs/agents.md."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
from collections.abc import AsyncIterator
from typing import Any

import anyio.to_thread
from inspect_ai import util
from inspect_ai.util import SandboxEnvironment

from environments import EnvironmentLostError, EnvironmentStartError, TerminalError, UnsupportedError
from environments.inventory import collect_garbage
from hermes_env.aio import AsyncEnvironment
from hermes_env.plugs.sandbox_config import COMPOSE_FILES, HermesSandboxConfig, check, sandboxes_of

__all__ = ["HermesSandboxConfig", "HermesSandboxEnvironment"]

_Limits = util.SandboxEnvironmentLimits
_Named = dict[str, Any]
_NEW = 'cd -- "$(mktemp -d)" && pwd'


@contextlib.asynccontextmanager
async def _unavailable() -> AsyncIterator[None]:
    """Raise inspect_ai's errors for a lost sandbox, and for an unsupported user."""
    try:
        yield
    except (EnvironmentLostError, EnvironmentStartError, UnsupportedError) as error:
        kind = util.SandboxUserUnsupportedError if isinstance(error, UnsupportedError) else util.SandboxUnavailableError
        raise kind(str(error)) from error


@util.sandboxenv(name="hermes")
class HermesSandboxEnvironment(SandboxEnvironment):
    """A sandbox of a sample: an environment. Relative paths start at the session's directory."""

    config_deserialize = HermesSandboxConfig.model_validate

    def __init__(self, settings: _Named) -> None:
        super().__init__()
        self._command = settings.pop("command")
        self._made = ""  # the directory made for the sample, if any
        self.env = AsyncEnvironment(**settings)

    async def _start(self) -> None:
        """Make a new directory if the default is shared or not writable; start the background command."""
        is_shared = (await self.env.target).kind in ("machine", "host") and self.env.settings.cwd is None
        self._made = (await self.env.execute(_NEW if is_shared else f"[ -w . ] || {{ {_NEW}; }}")).output.strip()
        if self._command:
            await self.env.start(self._command, stdin="none")

    @classmethod
    def config_files(cls) -> list[str]:
        return list(COMPOSE_FILES)

    @classmethod
    async def task_init(cls, task_name: str, config: object) -> None:
        await anyio.to_thread.run_sync(check, config)

    @classmethod
    async def sample_init(cls, task_name: str, config: object, metadata: dict[str, str]) -> _Named:
        boxes = {name: cls(settings) for name, settings in sandboxes_of(config).items()}
        try:
            for sandbox in boxes.values():
                await sandbox._start()
        except BaseException:
            await cls.sample_cleanup(task_name, config, boxes, interrupted=True)
            raise
        return boxes

    @classmethod
    async def sample_cleanup(cls, task_name: str, config: object, environments: _Named, interrupted: bool) -> None:
        with anyio.CancelScope(shield=True):
            for sandbox in environments.values():
                async with sandbox.env:
                    with contextlib.suppress(TerminalError):  # the target may be lost
                        await sandbox.env.remove(sandbox._made, recursive=True) if sandbox._made else None

    @classmethod
    async def cli_cleanup(cls, id: str | None) -> None:
        await anyio.to_thread.run_sync(collect_garbage)

    def default_polling_interval(self) -> float:
        return 0.2

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> util.ExecResult[str]:
        # Outside the session, so that commands run side by side. No retry after a time-out: the command was ended.
        takes_turn = concurrency and self.env.backend in ("local", "bubblewrap")
        turn = util.concurrency("subprocesses", os.cpu_count() or 1) if takes_turn else contextlib.nullcontext()
        limits: _Named = {"timeout": timeout or math.inf, "max_output_bytes": _Limits.MAX_EXEC_OUTPUT_SIZE}
        run = self.env.execute_oneshot
        async with _unavailable(), turn:
            if self._made and user not in (None, "root"):  # mktemp makes a directory for its own user only
                await run(["chmod", "711", self._made])
            result = await run(cmd, stdin=input, cwd=cwd, env=env, user=user, stderr="separate", **limits)
        stderr = result.stderr or ""
        if result.timed_out:
            late = TimeoutError(f"the command was ended after {timeout} seconds")
            late.truncated_output = result.output + stderr  # type: ignore[attr-defined]  # read by inspect_ai
            raise late
        if result.omitted_bytes:
            raise util.OutputLimitExceededError(_Limits.MAX_EXEC_OUTPUT_SIZE_STR, result.output + stderr)
        if result.exit_code == 126 and "permission denied" in stderr.casefold():
            raise PermissionError(stderr)
        return util.ExecResult(result.ok, result.exit_code, result.output, stderr)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        # Check the mode first: `write_bytes` would replace a read-only file.
        async with _unavailable():
            if not (await self.env.execute_oneshot(f"[ -w {shlex.quote(file)} ] || [ ! -e {shlex.quote(file)} ]")).ok:
                raise PermissionError(f"{file}: not writable by its mode")
            await self.env.write_bytes(file, contents.encode() if isinstance(contents, str) else contents)

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        async with _unavailable():
            data = await self.env.read_bytes(file, limit=_Limits.MAX_READ_FILE_SIZE + 1)
        if len(data) > _Limits.MAX_READ_FILE_SIZE:
            raise util.OutputLimitExceededError(_Limits.MAX_READ_FILE_SIZE_STR, None)
        return data.decode() if text else data

    async def connection(self, *, user: str | None = None) -> util.SandboxConnection:
        target = await self.env.target
        enter = target.enter if user is None else target.enter_as(user)
        if not enter:
            raise NotImplementedError(f"no command opens a shell in {target} as {user or 'its own user'}")
        container = target.name or target.id if target.kind == "container" else None
        return util.SandboxConnection(type="hermes", command=shlex.join(enter), container=container)
