"""A stream with input sent by a coroutine, such as calls of a service's client."""

from __future__ import annotations

import asyncio
import errno
from abc import abstractmethod
from collections import deque
from contextvars import Context

from environments.errors import TerminalError
from environments.log import logger
from environments.loop import current
from environments.shell.stream import Stream

log = logger(__name__)


class SendingStream(Stream):
    """Sends one piece of input after another. Waiting pieces are joined."""

    def __init__(self) -> None:
        self._unsent: deque[bytes | None] = deque()
        """None is the end of input."""
        self._sending: asyncio.Task[None] | None = None
        self._is_closed = self._is_broken = self._is_at_end = False
        """True once the stream was closed; sending has failed; the input has ended."""

    @abstractmethod
    async def _send(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            OSError, TerminalError: The bytes cannot be sent, and no more may be.
        """

    @abstractmethod
    async def _send_end(self) -> None:
        """Send end of file. Raises as `_send` does."""

    def write(self, data: bytes) -> None:
        if self._is_at_end or not self._may_send:
            raise BrokenPipeError(errno.EPIPE, "the process does not read any more")
        self._queue(data)

    def close_write(self) -> None:
        if self._may_send and not self._is_at_end:
            self._is_at_end = True
            self._queue(None)

    @property
    def _may_send(self) -> bool:
        return not (self._is_closed or self._is_broken or self.has_ended)

    def _queue(self, data: bytes | None) -> None:
        self._unsent.append(data)
        if self._sending is None:
            self._sending = current().spawn(self._send_all(), Context())

    async def _send_all(self) -> None:
        try:
            while self._unsent:
                pieces = []
                while self._unsent and self._unsent[0] is not None:
                    pieces.append(self._unsent.popleft())
                if pieces:
                    await self._send(b"".join(filter(None, pieces)))
                else:
                    self._unsent.popleft()
                    await self._send_end()
        except (OSError, TerminalError) as error:  # the process reads no more, or the target is gone
            log.debug("input could not be sent: %s", error)
            self._break()
        except Exception:
            self._break()
            self._end()  # else a caller would wait in vain
            raise
        finally:
            self._sending = None

    def _break(self) -> None:
        self._is_broken = True
        self._unsent.clear()

    @property
    def is_sent(self) -> bool:
        return self._sending is None

    async def drain(self) -> None:
        if self._sending:
            await asyncio.wait((self._sending, self.ended), return_when=asyncio.FIRST_COMPLETED)
