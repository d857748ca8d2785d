"""The commands and terminals of an openai-agents sandbox session."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from agents.sandbox import errors
from agents.sandbox.session import BaseSandboxSession, SandboxSessionState, pty_types
from agents.sandbox.types import ExecResult, User

from environments import EnvironmentLostError, TerminalError
from hermes_env.aio import AsyncEnvironment, AsyncProcess

RunAs: TypeAlias = str | User | None


@dataclass
class _Running:
    process: AsyncProcess
    has_terminal: bool
    used: float = field(default_factory=time.monotonic)


class CommandSession(BaseSandboxSession):
    """The commands of a session, with and without a terminal. The arguments are those of `HermesSandboxSession`."""

    def __init__(self, state: SandboxSessionState, env: AsyncEnvironment) -> None:
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

    async def _run(self, method: Callable[..., Awaitable[Any]], argv: list[str], user: RunAs, **how: object) -> Any:  # noqa: ANN401
        manifest, name = self.state.manifest, user.name if isinstance(user, User) else user
        try:
            variables = await manifest.environment.resolve()
            return await self._call(method, argv, cwd=manifest.root, env=variables, user=name, **how)
        except TerminalError as error:
            raise errors.ExecTransportError(command=argv, cause=error, message=str(error)) from error

    async def _exec(
        self, argv: list[str], limit: float | None = None, user: RunAs = None, **more: object
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
        user: RunAs = None,
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
        user: RunAs = None,
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
