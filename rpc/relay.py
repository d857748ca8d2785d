"""The relay: tool calls of a script under a boot program. Requests arrive in the output, answers go to the input."""

from __future__ import annotations

import asyncio
import contextlib

from environments.errors import TerminalError
from environments.loop import in_worker, spawn
from environments.output import AttachedProcess
from rpc.dispatcher import Dispatcher
from rpc.messages import IncomingLines, InvalidLineError, Response, TooLargeError, too_large

MAX_RUNNING = 32
"""Calls of one script that run at the same time."""
MAX_CALLS, MAX_BYTES = 65, 64 * 1024 * 1024
"""Limits for calls under way and their bytes together. At the limit the script's stream is paused: back-pressure.

The boot program takes 64 connections, so that as many calls do not keep the script's end from being read.
"""
TOO_LARGE = Response("", error=too_large()).encode().decode().rstrip("\n")
"""Answer to a request that is too large; the boot program does not send such a request on."""


class BrokenRelayError(TerminalError):
    """The bytes have a form never sent by a boot program."""


class Relay:
    """Receives requests from the boot program, dispatches them on worker threads, and sends the answers.

    The script's stream is paused while the calls under way are many or large. Used on the loop thread.

    Args:
        dispatcher: Answers the requests.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        """Answers requests from now on. May be replaced by a dispatcher with the same token."""
        self._process: AttachedProcess | None = None
        self._slots = asyncio.Semaphore(MAX_RUNNING)
        self._connection = 0
        self._line: IncomingLines | None = None
        self._dropped = 0
        self._calls = self._bytes = 0
        self._is_paused = self._has_ended = False

    def attach(self, process: AttachedProcess) -> None:
        """Set the process to send answers to."""
        self._process = process

    def receive(self, connection: int, part: bytes, is_last: bool) -> None:
        """Receive the next part of a request. A script may reach the relaying process, so the content is not trusted.

        Args:
            connection: Number of the script's connection.
            part: At most as many bytes as a message has.
            is_last: True if the request is complete.

        Raises:
            BrokenRelayError: A boot program never sends this.
        """
        if self._line is None:
            self._connection, self._line, self._dropped = connection, IncomingLines(self.dispatcher.prefix), 0
        if connection != self._connection or part.endswith(b"\n") is not is_last:
            raise BrokenRelayError("the relay of the script's tool calls was tampered with")
        lines: list[bytes] = []
        if self._dropped:
            self._dropped += len(part)
        else:
            try:
                lines = self._line.feed(part)
            except TooLargeError:
                raise BrokenRelayError("the script's relay has sent more than a request may have") from None
            except InvalidLineError:
                self._dropped = self._line.size
        if is_last:
            self._line = None
            self._dispatch(connection, lines[0] if lines else b"")

    def _dispatch(self, connection: int, line: bytes) -> None:
        size = len(line) + self._dropped
        self._calls += 1
        self._bytes += size
        spawn(self._answer(connection, line, self._dropped, size))
        if self._is_full and self._process:
            self._is_paused = True
            self._process.pause()

    @property
    def _is_full(self) -> bool:
        return self._calls >= MAX_CALLS or self._bytes >= MAX_BYTES

    async def _answer(self, connection: int, line: bytes, dropped: int, size: int) -> None:
        dispatcher = self.dispatcher
        async with self._slots:
            if self._has_ended:
                return
            answer = await (in_worker(dispatcher.refusal, dropped) if dropped else in_worker(dispatcher.dispatch, line))
        if self._has_ended or self._process is None:
            return
        with contextlib.suppress(BrokenPipeError):
            self._process.feed(b"a %d %d\n" % (connection, len(answer)) + answer)
        self._calls -= 1
        if not self._process.is_flushed:
            await self._process.flush()
        self._bytes -= size
        if self._is_paused and not self._is_full:
            self._is_paused = False
            self._process.resume()

    def end(self) -> None:
        """End the relay after the script's end. The waiting boot program is told to expect no more answers."""
        if self._has_ended:
            return
        self._has_ended = True
        if self._process is None:
            return
        if self._calls:
            with contextlib.suppress(BrokenPipeError):
                self._process.feed(b"\n")
        self._process.resume()
