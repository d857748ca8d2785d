"""What the relay says, without any I/O. A script can reach the relay, so that nothing of it is trusted."""

from __future__ import annotations

from typing import NamedTuple

from environments.errors import TerminalError
from rpc.incoming import IncomingLines, RefusedError, TooLargeError
from rpc.messages import MAX_MESSAGE_BYTES

NUMBER_DIGITS = 9


class BrokenRelayError(TerminalError):
    """The relay says what no relay of ours does."""


class RelayedRequest(NamedTuple):
    """A request, and the connection it came on."""

    connection: bytes
    line: bytes
    dropped: int = 0
    """How many bytes it had if it did not begin with the token, and was dropped."""

    @property
    def size(self) -> int:
        """How many bytes have come of it."""
        return len(self.line) + self.dropped


class RelayLines:
    """Cuts what the relay says into requests. Each stands on a line, behind the number of its connection.

    Args:
        prefix: What each request begins with.
    """

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._number = b""
        self._line: IncomingLines | None = None
        self._dropped = 0

    def feed(self, data: bytes) -> list[RelayedRequest]:
        """Take the next bytes, and return the requests that they complete.

        Raises:
            BrokenRelayError: They are no relay's.
        """
        found = []
        while data:
            if self._line is None:
                data = self._feed_number(data)
                continue
            end = data.find(b"\n") + 1 or len(data)
            part, data = data[:end], data[end:]
            if request := self._feed_line(part):
                found.append(request)
        return found

    def _feed_number(self, data: bytes) -> bytes:
        """Read on in the number in front of a request, and return what stands behind it."""
        size = len(self._number)
        self._number += data[: NUMBER_DIGITS + 1 - size]
        digits, space, _ = self._number.partition(b" ")
        if not digits.isdigit() or (not space and len(digits) > NUMBER_DIGITS):
            raise BrokenRelayError
        if not space:
            return b""
        self._number = digits
        self._line = IncomingLines(self._prefix, MAX_MESSAGE_BYTES)
        self._dropped = 0
        return data[len(digits) + 1 - size :]

    def _feed_line(self, part: bytes) -> RelayedRequest | None:
        """Read on in a request, of which `part` is at most the rest, and return it if it is complete."""
        assert self._line
        lines: list[bytes] = []
        if self._dropped:
            self._dropped += len(part)
        else:
            try:
                lines = self._line.feed(part)
            except TooLargeError:
                raise BrokenRelayError from None
            except RefusedError:
                self._dropped = self._line.size
        if self._dropped > MAX_MESSAGE_BYTES:
            raise BrokenRelayError
        if not part.endswith(b"\n"):
            return None
        number, self._number, self._line = self._number, b"", None
        return RelayedRequest(number, lines[0] if lines else b"", self._dropped)
