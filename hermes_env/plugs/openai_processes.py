"""Commands of a sandbox session of openai-agents that go on when a call has returned."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from agents.sandbox import errors
from agents.sandbox.session import pty_types
from agents.sandbox.session.base_sandbox_session import BaseSandboxSession
from agents.sandbox.types import User

from environments import BaseEnvironment, EnvironmentLostError, TerminalError
from hermes_env.aio import AsyncProcess
from hermes_env.plugs.awaiting import Threads

RunAs: TypeAlias = str | User | None


@dataclass
class _Kept:
    process: AsyncProcess
    has_terminal: bool
    used: float = field(default_factory=time.monotonic)


class SessionWithProcesses(BaseSandboxSession):
    """The part of a session by which its model starts commands, reads on and types: `exec_command`, `write_stdin`."""

    def __init__(self, env: BaseEnvironment) -> None:
        self.env = env
        self._threads = Threads()
        self._is_lost = False
        self._kept: dict[int, _Kept] = {}

    async def _call(self, function: Callable[..., Any], /, *args: object, **kwargs: object) -> Any:  # noqa: ANN401
        if self._is_lost:  # the environment itself would go on in another target
            raise EnvironmentLostError("the sandbox is gone")
        try:
            return await self._threads.call(function, *args, **kwargs)
        except EnvironmentLostError:
            self._is_lost = True
            raise

    async def _where(self, user: RunAs) -> dict[str, Any]:
        """Return the arguments that each command is run with."""
        manifest, name = self.state.manifest, user.name if isinstance(user, User) else user
        return {"cwd": manifest.root, "env": await manifest.environment.resolve(), "user": name}

    def supports_pty(self) -> bool:
        """Return that it does: a backend that gives no terminal says so when one is asked for."""
        return True

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
        """Start a command, and return what it has printed when it ends or the time is up. It then goes on."""
        argv = self._prepare_exec_command(*command, shell=shell, user=None)
        stdin = "open" if tty else "none"
        try:
            process = await self._call(self.env.start, argv, pty=tty, stdin=stdin, **await self._where(user))
        except TerminalError as error:
            raise errors.ExecTransportError(command=argv, cause=error, message=str(error)) from error
        key = pty_types.allocate_pty_process_id(set(self._kept))
        self._kept[key] = _Kept(AsyncProcess(process), tty)
        await self._end_the_oldest()
        wait = 10_000 if yield_time_s is None else int(yield_time_s * 1000)
        return await self._update(key, pty_types.clamp_pty_yield_time_ms(wait), max_output_tokens)

    async def _end_the_oldest(self) -> None:
        if len(self._kept) > pty_types.PTY_PROCESSES_MAX:
            known = [(key, kept.used, not kept.process.running) for key, kept in self._kept.items()]
            oldest = pty_types.process_id_to_prune_from_meta(known)
            if oldest is not None:
                await self._kept.pop(oldest).process.kill()

    async def pty_write_stdin(
        self,
        *,
        session_id: int,
        chars: str,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> pty_types.PtyExecUpdate:
        """Type on a command's terminal, and return what it has printed since."""
        kept = self._resolve_pty_session_entry(pty_processes=self._kept, session_id=session_id)
        if chars:
            if not kept.has_terminal:
                raise RuntimeError("stdin is not available for this process")  # the text that openai-agents looks for
            with contextlib.suppress(BrokenPipeError):  # it has ended, as the update will say
                await kept.process.write(chars)
        kept.used = time.monotonic()
        wait = 250 if yield_time_s is None else int(yield_time_s * 1000)
        wait = pty_types.resolve_pty_write_yield_time_ms(yield_time_ms=wait, input_empty=not chars)
        return await self._update(session_id, wait, max_output_tokens)

    async def _update(self, key: int, milliseconds: int, tokens: int | None) -> pty_types.PtyExecUpdate:
        process = self._kept[key].process
        try:
            code = await process.wait(milliseconds / 1000)
        except TerminalError as error:
            self._is_lost |= isinstance(error, EnvironmentLostError)
            raise errors.ExecTransportError(command=(), cause=error, message=str(error)) from error
        text, count = pty_types.truncate_text_by_tokens(await process.read(), tokens)
        if code is not None:
            del self._kept[key]
        return pty_types.PtyExecUpdate(key if code is None else None, text.encode(), code, count)

    async def pty_terminate_all(self) -> None:
        """End all of them."""
        while self._kept:
            _, kept = self._kept.popitem()
            with contextlib.suppress(TerminalError):  # they went with the target
                await kept.process.kill()
