"""Bytes of a script's connection to requests, without any I/O: so much is kept of them, and no more."""

from __future__ import annotations

from rpc.messages import MAX_MESSAGE_BYTES

_END = b"\n"


class RefusedError(Exception):
    """What comes is no request of the script's, and nothing more of it is to be read."""


class TooLargeError(RefusedError):
    """It is longer than any request."""


class IncomingLines:
    """Cuts what comes on one connection into lines.

    A line has to begin with what only the script knows, and until that is there, no more than that is kept.

    Args:
        prefix: What each line begins with.
        limit: The longest line in bytes, its end included.
    """

    def __init__(self, prefix: bytes, limit: int = MAX_MESSAGE_BYTES) -> None:
        self._prefix = prefix
        self._limit = limit
        self._begun = bytearray()
        self._searched = 0

    @property
    def size(self) -> int:
        """Bytes that are kept of a line of which the end is still to come."""
        return len(self._begun)

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes, and return the lines that they complete, with their ends.

        Raises:
            RefusedError: A line begins with something else.
            TooLargeError: A line does not end within the limit.
        """
        if not self._begun and data.find(_END) == len(data) - 1 and data.startswith(self._prefix):
            self._check_size(len(data))
            return [data]  # as it is mostly
        self._begun += data
        lines = []
        while (end := self._begun.find(_END, self._searched)) >= 0:
            self._check(end + 1)
            lines.append(bytes(memoryview(self._begun)[: end + 1]))
            del self._begun[: end + 1]
            self._searched = 0
        self._searched = len(self._begun)
        self._check(len(self._begun))
        return lines

    def _check(self, size: int) -> None:
        known = min(size, len(self._prefix))
        if self._begun[:known] != self._prefix[:known]:
            raise RefusedError
        self._check_size(size)

    def _check_size(self, size: int) -> None:
        if size > self._limit:
            raise TooLargeError
