"""Leftovers: background processes that hold a shell's output. Their output reaches no later command.

A shell with leftovers redirects its own output into two pipes in the target. A relay process, on a stream of its own,
copies the pipes' output. Later output on the first stream is read and dropped. With new leftovers, the relay makes new
pipes, and drains the old ones in the target.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

from environments.errors import TerminalError
from environments.loop import current, done_within, spawn
from environments.output import Channel
from environments.shell.dialect.commands import output_is_held, relay_argv, signalling
from environments.shell.pool import CONTROL_LIMIT, opened
from environments.shell.run import BEGIN_LIMIT
from environments.shell.stream import Discard, Stream

if TYPE_CHECKING:
    from environments.shell.pool import Shells
    from environments.shell.shell import Shell

REPORT_LIMIT = 1.0
"""Seconds for the state report of the last command. A plain sh may report no state."""
PIPES_LIMIT = 60.0
"""Seconds for new pipes."""
QUIET = 0.5
"""Seconds without output until an ended shell's last output counts as complete."""


async def detach_leftovers(shell: Shell, shells: Shells) -> None:
    """Redirect a shell's output if a process of an earlier command may still print.

    Raises:
        BrokenPipeError: The shell has ended.
        TerminalError: The output could not be redirected.
    """
    # A shell without an answer may have been stopped, and is sent SIGCONT.
    timer = current().loop.call_later(BEGIN_LIMIT, lambda: spawn(_continue(shell, shells)))
    try:
        await shell.report(REPORT_LIMIT)  # the report is lost with its stream
        left = (await shell.query(shell.dialect.asking_for_leftovers, limit=CONTROL_LIMIT)).left
        if (left or shell.is_noisy) and await _output_is_held(shell, shells):
            await _redirect(shell, shells)
    finally:
        timer.cancel()
    if left:
        shell.send_internal(shell.dialect.new_keepalive())
    shell.has_leftovers = shell.is_noisy = False


async def _continue(shell: Shell, shells: Shells) -> None:
    with contextlib.suppress(TerminalError):  # the shell is given up then
        await shells.control.run(signalling("CONT", (shell.pid,)))


async def _output_is_held(shell: Shell, shells: Shells) -> bool:
    dialect = shell.dialect
    text = output_is_held(
        shell.pid, shell.marker, (dialect.keepalive, dialect.keepalive_end), (dialect.out, dialect.err)
    )
    return (await shells.control.run(text)).strip() != "free"


async def _redirect(shell: Shell, shells: Shells) -> None:
    stream = shell.stream
    try:
        if not isinstance(stream, Redirected):
            word = os.urandom(8).hex()
            relay = await opened(shells.env.open_stream, relay_argv(shell.marker, word), None)
            stream = Redirected(shell, relay, word)
        directory = await stream.new_pipes()
        shell.send_internal(shell.dialect.redirecting(directory))
        stream.take_over()
        await shell.query(shell.dialect.asking_for_leftovers, limit=CONTROL_LIMIT)  # answered through the pipes
        stream.opened()
    except BrokenPipeError:
        if isinstance(stream, Redirected):
            await stream.relay.close()
        raise TerminalError(
            "a command left a background process that prints, and its output could not be separated; "
            "redirect it to a file, or start the process with `start`"
        ) from None


class Redirected(Stream):
    """The stream of a shell that writes into pipes.

    Args:
        shell: The shell.
        relay: The relay process.
        word: A secret word.
    """

    def __init__(self, shell: Shell, relay: Stream, word: str) -> None:
        self.first, self.relay = shell.stream, relay
        self._shell = shell
        self._mark = b"\x1e" + word.encode() + b" "
        self._seen: dict[Channel, bytes] | None = None
        self._arrived = asyncio.Event()
        self._last_read = 0.0
        relay.start(self)

    def _begin(self) -> None:
        """Do nothing: both streams are already read."""

    async def new_pipes(self) -> str:
        """Have the relay make new pipes, and return their directory. All output of the old pipes has been read by then.

        Raises:
            BrokenPipeError: The pipes could not be made.
        """
        self._seen = dict.fromkeys(Channel, b"")
        self.relay.write(b"next\n")
        try:
            async with asyncio.timeout(PIPES_LIMIT):
                while not all(self._mark in text and text.endswith(b"\n") for text in self._seen.values()):
                    if self.relay.has_ended:
                        raise BrokenPipeError
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            raise BrokenPipeError from None
        said, self._seen = self._seen[Channel.STDOUT], None
        return said.removeprefix(self._mark).decode().rstrip("\n")

    def opened(self) -> None:
        """Let the relay unlink the pipes: the shell has opened them."""
        self.relay.write(b"opened\n")

    def take_over(self) -> None:
        """Replace the shell's stream."""
        if self._shell.stream is self:
            return
        self.ended = current().loop.create_future()
        self.receiver = self._shell
        self.first.receiver = _UntilEnd(self)
        self._shell.stream = self
        if self.first.has_ended:
            self.first_ended()

    # Output from the pipes.

    def data_received(self, channel: Channel, data: bytes) -> None:
        """Process output from the pipes, see `Receiver`."""
        self._last_read = current().loop.time()
        if self._seen is None:
            self.receiver.data_received(channel, data)
            return
        text = self._seen[channel] + data
        found = text.find(self._mark)
        self._seen[channel] = text[found:] if found >= 0 else text[-len(self._mark) :]
        self._arrived.set()

    def stream_ended(self) -> None:
        """Handle the end of the relay, see `Receiver`."""
        self._arrived.set()
        if self._shell.stream is self:
            self._end()

    def first_ended(self) -> None:
        """Handle the end of the shell's process: its last output may still be in the pipes."""
        spawn(self._end_when_quiet())

    async def _end_when_quiet(self) -> None:
        while (left := self._last_read + QUIET - current().loop.time()) > 0 and not self.has_ended:
            await done_within(self.ended, left)
        self._end()
        await self.relay.close()

    # Delegated to the first stream.

    def write(self, data: bytes) -> None:
        # Leftovers may hold the input open after the shell's end.
        if self.first.has_ended:
            raise BrokenPipeError
        self.first.write(data)

    @property
    def is_sent(self) -> bool:
        return self.first.is_sent

    async def drain(self) -> None:
        await self.first.drain()

    def close_write(self) -> None:
        self.first.close_write()

    def pause(self) -> None:
        self.relay.pause()

    def resume(self) -> None:
        self.relay.resume()

    def unread(self) -> int | None:
        return self.first.unread()

    async def exit_code(self, timeout: float) -> int | None:
        return await self.first.exit_code(timeout)

    async def close(self) -> None:
        await self.first.close()
        await self.relay.close()
        self._end()


class _UntilEnd(Discard):
    """Drops output of the first stream, and reports its end."""

    def __init__(self, redirected: Redirected) -> None:
        self._redirected = redirected

    def stream_ended(self) -> None:
        self._redirected.first_ended()
