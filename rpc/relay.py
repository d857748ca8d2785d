"""Tool calls of a script that is kept by its boot program: they come between what it prints, and go to its input."""

from __future__ import annotations

import asyncio
import contextlib

from environments.errors import TerminalError
from environments.loop import in_worker, spawn
from environments.output import AttachedProcess
from rpc.dispatcher import Dispatcher
from rpc.messages import IncomingLines, InvalidLineError, Response, TooLargeError, too_large

MOST_SIDE_BY_SIDE = 32
"""How many calls of one script run at the same time."""
MOST_CALLS, MOST_BYTES = 65, 64 * 1024 * 1024
"""How many calls are under way, and how large they are together, before the script's stream is read no more.

The boot program takes 64 connections, so that as many calls do not keep the script's end from being read.
"""
TOO_LARGE = Response("", error=too_large()).encode().decode().rstrip("\n")
"""The answer to a request that is too large, which the boot program does not send on."""


class BrokenRelayError(TerminalError):
    """What comes is nothing that a boot program of ours sends."""


class Relay:
    """Takes the requests that the boot program hands on, has them answered on worker threads, and sends the answers.

    While many are under way, or large ones, the script's stream is not read. It lives on the loop thread.

    Args:
        dispatcher: Answers the requests.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        """What answers from now on. Another one of the same token may take its place."""
        self._process: AttachedProcess | None = None
        self._turns = asyncio.Semaphore(MOST_SIDE_BY_SIDE)
        self._connection = 0
        self._line: IncomingLines | None = None
        self._dropped = 0
        self._calls = self._bytes = 0
        self._is_paused = self._has_ended = False

    def attach(self, process: AttachedProcess) -> None:
        """Note where answers go."""
        self._process = process

    def take(self, connection: int, part: bytes, is_last: bool) -> None:
        """Take the next part of a request. A script may reach what relays it, so that nothing of it is trusted.

        Args:
            connection: The number of the connection that it came on.
            part: At most so many bytes as one message has.
            is_last: Whether the request ends with it.

        Raises:
            BrokenRelayError: The boot program never does that.
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
            self._begin(connection, lines[0] if lines else b"")

    def _begin(self, connection: int, line: bytes) -> None:
        size = len(line) + self._dropped
        self._calls += 1
        self._bytes += size
        spawn(self._answer(connection, line, self._dropped, size))
        if self._is_full and self._process:
            self._is_paused = True
            self._process.pause()

    @property
    def _is_full(self) -> bool:
        return self._calls >= MOST_CALLS or self._bytes >= MOST_BYTES

    async def _answer(self, connection: int, line: bytes, dropped: int, size: int) -> None:
        dispatcher = self.dispatcher
        async with self._turns:
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
        """Note that the script has ended. The boot program waits for answers, and is told that none comes any more."""
        if self._has_ended:
            return
        self._has_ended = True
        if self._process is None:
            return
        if self._calls:
            with contextlib.suppress(BrokenPipeError):
                self._process.feed(b"\n")
        self._process.resume()
