"""Process on a terminal of a Daytona sandbox, over the service's websocket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from environments.daytona.service import sdk, service
from environments.errors import EnvironmentStartError
from environments.loop import done_within, spawn
from environments.output import Channel
from environments.shell.sending_stream import SendingStream
from environments.shell.stream import Terminal

if TYPE_CHECKING:
    from daytona.handle.async_pty_handle import AsyncPtyHandle

PROMPT_TIMEOUT = 5.0
"""Seconds to wait for the login shell's first output: earlier input may be discarded."""
BEGIN_TIMEOUT = 30.0
CLOSE_TIMEOUT = 5.0


async def open_terminal(
    sandbox: sdk.AsyncSandbox, argv: Sequence[str], terminal: Terminal, put_script: Callable[[bytes], Awaitable[str]]
) -> DaytonaTerminal:
    """Start a process on a terminal.

    The service starts the user's login shell there; `exec` then replaces the shell with our process.

    Args:
        sandbox: The sandbox.
        argv: The program and its arguments.
        terminal: The size of the terminal.
        put_script: Writes a script into the target and returns its path.

    Raises:
        EnvironmentStartError: The login shell did not become the process.
    """
    begin = os.urandom(8).hex()
    # Input is echoed: the marker at the beginning of the output must not be part of the input.
    script = await put_script(f"printf %s {begin}\nexec {shlex.join(argv)}\n".encode())
    stream = DaytonaTerminal()
    size = sdk.PtySize(rows=terminal.rows, cols=terminal.columns)
    handle = await sandbox.process.create_pty_session(f"hermes-{begin}", stream.receive, pty_size=size)
    try:
        await stream.exec_process(handle, begin.encode(), f" exec /bin/sh {shlex.quote(script)}\n".encode())
    except BaseException:
        spawn(stream.close())
        raise
    return stream


class DaytonaTerminal(SendingStream):
    """A process on a terminal, see `open_terminal`."""

    _handle: AsyncPtyHandle
    _end_task: asyncio.Task[None]

    def __init__(self) -> None:
        super().__init__()
        self._first_output = b""
        """Output before the process's start."""
        self._arrived = asyncio.Event()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._has_begun = False

    async def exec_process(self, handle: AsyncPtyHandle, begin: bytes, line: bytes) -> None:
        """Type the `exec` line, and wait for the marker of our process."""
        self._handle, self._end_task = handle, spawn(self._await_end(handle))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PROMPT_TIMEOUT):
                await self._arrived.wait()
        await handle.send_input(line)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BEGIN_TIMEOUT):
                while begin not in self._first_output and not self._end_task.done():
                    self._arrived.clear()
                    await self._arrived.wait()
        if begin not in self._first_output:
            output = self._first_output.decode("utf-8", "replace")[-500:]
            raise EnvironmentStartError(f"backend 'daytona': the terminal could not be set up: {output}")
        self._first_output = self._first_output.partition(begin)[2]

    async def _await_end(self, handle: AsyncPtyHandle) -> None:
        with contextlib.suppress(sdk.DaytonaError, asyncio.CancelledError):  # `disconnect` causes these
            await handle.wait()
        self._arrived.set()
        if self._has_begun:
            self._end()

    async def receive(self, data: bytes) -> None:
        """Receive output. The next message is read only after the return: back-pressure."""
        await self._may_read.wait()
        if self._has_begun:
            self.receiver.data_received(Channel.STDOUT, data)
        else:
            self._first_output += data
            self._arrived.set()

    def _begin(self) -> None:
        self._has_begun = True
        if self._first_output:
            self.receiver.data_received(Channel.STDOUT, self._first_output)
        if self._end_task.done():
            self._end()

    async def _send(self, data: bytes) -> None:
        try:
            await self._handle.send_input(data)
        except sdk.DaytonaError as error:
            raise BrokenPipeError(service.reason(error)) from None

    async def _send_end(self) -> None:
        await self._send(b"\x04")

    def pause(self) -> None:
        self._may_read.clear()

    def resume(self) -> None:
        self._may_read.set()

    async def resize(self, terminal: Terminal) -> None:
        with contextlib.suppress(sdk.DaytonaError):
            await self._handle.resize(sdk.PtySize(rows=terminal.rows, cols=terminal.columns))

    async def exit_code(self, timeout: float) -> int | None:
        await done_within(self._end_task, timeout)
        return self._handle.exit_code

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._may_read.set()
            with contextlib.suppress(TimeoutError, sdk.DaytonaError):
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    if not self._end_task.done():
                        await self._handle.kill()
                    await self._handle.disconnect()
        await done_within(self._end_task, CLOSE_TIMEOUT)
