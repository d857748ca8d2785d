"""A process on a terminal of a Daytona sandbox, over the service's websocket."""

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
"""Seconds to wait for the login shell's first output: input before that may be discarded."""
BEGIN_TIMEOUT = 30.0
CLOSE_TIMEOUT = 5.0


async def open_terminal(
    sandbox: sdk.AsyncSandbox, argv: Sequence[str], terminal: Terminal, put_script: Callable[[bytes], Awaitable[str]]
) -> DaytonaTerminal:
    """Start a process on a terminal.

    The service starts the user's own login shell there. It is told to become our process.

    Args:
        sandbox: Where it runs.
        argv: The program and its arguments.
        terminal: Its size.
        put_script: Writes a script into the target and returns its path.

    Raises:
        EnvironmentStartError: The login shell did not become the process.
    """
    begin = os.urandom(8).hex()
    # What is typed is echoed, so that the word that begins the output must not stand in it.
    script = await put_script(f"printf %s {begin}\nexec {shlex.join(argv)}\n".encode())
    stream = DaytonaTerminal()
    size = sdk.PtySize(rows=terminal.rows, cols=terminal.columns)
    handle = await sandbox.process.create_pty_session(f"hermes-{begin}", stream.take, pty_size=size)
    try:
        await stream.take_over(handle, begin.encode(), f" exec /bin/sh {shlex.quote(script)}\n".encode())
    except BaseException:
        spawn(stream.close())
        raise
    return stream


class DaytonaTerminal(SendingStream):
    """A process on a terminal, see `open_terminal`."""

    _handle: AsyncPtyHandle
    _over: asyncio.Task[None]

    def __init__(self) -> None:
        super().__init__()
        self._early = b""
        """Output that arrived before the start."""
        self._arrived = asyncio.Event()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._has_begun = False

    async def take_over(self, handle: AsyncPtyHandle, begin: bytes, line: bytes) -> None:
        """Type the line that makes the login shell our process, whose output begins with a word."""
        self._handle, self._over = handle, spawn(self._await_end(handle))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PROMPT_TIMEOUT):
                await self._arrived.wait()
        await handle.send_input(line)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BEGIN_TIMEOUT):
                while begin not in self._early and not self._over.done():
                    self._arrived.clear()
                    await self._arrived.wait()
        if begin not in self._early:
            said = self._early.decode("utf-8", "replace")[-500:]
            raise EnvironmentStartError(f"backend 'daytona': the terminal could not be set up: {said}")
        self._early = self._early.partition(begin)[2]

    async def _await_end(self, handle: AsyncPtyHandle) -> None:
        with contextlib.suppress(sdk.DaytonaError, asyncio.CancelledError):  # which is what disconnecting leads to
            await handle.wait()
        self._arrived.set()
        if self._has_begun:
            self._end()

    async def take(self, data: bytes) -> None:
        """Take what arrives. No more is read meanwhile."""
        await self._may_read.wait()
        if self._has_begun:
            self.receiver.data_received(Channel.STDOUT, data)
        else:
            self._early += data
            self._arrived.set()

    def _begin(self) -> None:
        self._has_begun = True
        if self._early:
            self.receiver.data_received(Channel.STDOUT, self._early)
        if self._over.done():
            self._end()

    async def _send(self, data: bytes) -> None:
        try:
            await self._handle.send_input(data)
        except sdk.DaytonaError as error:
            raise BrokenPipeError(service.reason(error)) from None

    async def _send_end(self) -> None:
        await self._send(b"\x04")

    def pause(self) -> None:
        """Stop reading, see `Stream`."""
        self._may_read.clear()

    def resume(self) -> None:
        """Read on, see `Stream`."""
        self._may_read.set()

    async def resize(self, terminal: Terminal) -> None:
        """Change the size of the terminal, see `Stream`."""
        with contextlib.suppress(sdk.DaytonaError):
            await self._handle.resize(sdk.PtySize(rows=terminal.rows, cols=terminal.columns))

    async def exit_code(self, timeout: float) -> int | None:
        """Return how the process ended, see `Stream`."""
        await done_within(self._over, timeout)
        return self._handle.exit_code

    async def close(self) -> None:
        """End the terminal, see `Stream`."""
        if not self._is_closed:
            self._is_closed = True
            self._may_read.set()
            with contextlib.suppress(TimeoutError, sdk.DaytonaError):
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    if not self._over.done():
                        await self._handle.kill()
                    await self._handle.disconnect()
        await done_within(self._over, CLOSE_TIMEOUT)
