"""Messages on the wire: a JSON object per line for each request and answer; and the splitting of bytes into
lines."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Self, TypeAlias, TypeVar, cast

from environments.errors import TerminalError

_T = TypeVar("_T")

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""Longest line that either side accepts, newline included. A tool result of 10 MB fits even with escapes."""
MAX_ID_CHARACTERS = 200
"""Limit for an id. Ids are remembered as long as the script runs, so a forged id must not take much memory."""
MAX_VALUES = 250_000
"""Limit for the values in a message. Millions of small ones take seconds to decode, while no other thread of Python
runs, and many times the memory of the line."""
SMALL_MESSAGE_BYTES = 64 * 1024
"""Messages up to this size are not counted, because they cannot hold too many values."""


class MessageError(TerminalError):
    """A message is not JSON, has the wrong shape, is too large, or has a value without a JSON form."""


@dataclass(frozen=True, slots=True)
class Request:
    """A script's call of a tool."""

    id: str
    """Unique for each call. A request runs at most once, even if the same id arrives twice."""
    tool: str
    """Name of the handler."""
    args: list[JsonValue]
    """Positional arguments."""
    kwargs: dict[str, JsonValue]
    """Arguments by name."""
    token: str
    """Secret that proves the origin of the request."""

    def encode(self) -> bytes:
        """Return the request as a line. The token stands first; see `request_prefix`.

        Raises:
            MessageError: The request is too large, or has a value without a JSON form.
        """
        return _encode(
            {"token": self.token, "id": self.id, "tool": self.tool, "args": self.args, "kwargs": self.kwargs}
        )

    @classmethod
    def decode(cls, line: bytes) -> Self:
        """Parse a request.

        Raises:
            MessageError: The line is not JSON, has the wrong shape, or is too large.
        """
        fields = _decode(line)
        identity = _field(fields, "id", str)
        if not 0 < len(identity) <= MAX_ID_CHARACTERS:
            raise MessageError(f"'id' has {len(identity)} characters, allowed are 1 to {MAX_ID_CHARACTERS}")
        return cls(
            id=identity,
            tool=_field(fields, "tool", str),
            args=_field(fields, "args", list),
            kwargs=_field(fields, "kwargs", dict),
            token=_field(fields, "token", str),
        )


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to a request: a result or an error."""

    id: str
    """Id of the request; empty if the request could not be read."""
    result: JsonValue = None
    """The tool's return value; for a failed tool an object with `error`."""
    error: str | None = None
    """Reason of a refusal, for the script's author."""

    def encode(self) -> bytes:
        """Return the answer as a line.

        Raises:
            MessageError: The answer is too large, or has a value without a JSON form.
        """
        if self.error is not None:
            return _encode({"id": self.id, "error": self.error})
        return _encode({"id": self.id, "result": self.result})

    @classmethod
    def decode(cls, line: bytes) -> Self:
        """Parse an answer.

        Raises:
            MessageError: The line is not JSON, has the wrong shape, or is too large.
        """
        fields = _decode(line)
        identity = _field(fields, "id", str)
        if "error" in fields:
            return cls(identity, error=_field(fields, "error", str))
        if "result" not in fields:
            raise MessageError("the message has neither 'result' nor 'error'")
        return cls(identity, result=fields["result"])


def request_prefix(token: str) -> bytes:
    """Return the first bytes of every request with this token. A line with other first bytes can be refused unread."""
    return json.dumps({"token": token}, separators=(",", ":")).encode("ascii").removesuffix(b"}") + b","


def too_large(size: int | None = None) -> str:
    """Return the error text for a message above the limit, with the size in bytes if known."""
    found = "more" if size is None else f"{size} bytes"
    return (
        f"the message is too large: at most {MAX_MESSAGE_BYTES} bytes are allowed, this is {found}; "
        "put the data in a file and pass its path"
    )


def _encode(fields: dict[str, JsonValue]) -> bytes:
    try:
        line = _ENCODER.encode(fields).encode("ascii") + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise MessageError(f"JSON can't carry it: {error}") from error
    if len(line) > MAX_MESSAGE_BYTES:
        raise MessageError(too_large(len(line)))
    return line


def _decode(line: bytes) -> dict[str, JsonValue]:
    if len(line) > MAX_MESSAGE_BYTES:
        raise MessageError(too_large(len(line)))
    _check_values(line)
    try:
        # From bytes, json would guess UTF-16 and others, where `_check_values` counts wrong.
        fields = _DECODER.decode(line.decode())
    except (ValueError, RecursionError) as error:
        raise MessageError(f"the message is not JSON ({type(error).__name__})") from error
    if not isinstance(fields, dict):
        raise MessageError(f"the message is a JSON {type(fields).__name__} and not an object")
    return cast("dict[str, JsonValue]", fields)


def _check_values(line: bytes) -> None:
    """Count the values of a message without decoding any.

    Raises:
        MessageError: The message has too many values.
    """
    if len(line) <= SMALL_MESSAGE_BYTES:
        return
    # Text within quotes is not counted. Without escapes, every second part between quotes is such text.
    bare = line.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in line else line
    count = bare.count(b'"') // 2
    if count <= MAX_VALUES:
        outside = b"".join(bare.split(b'"')[::2])
        count = max(count, sum(outside.count(mark) for mark in (b",", b"[", b"{")))
    if count > MAX_VALUES:
        raise MessageError(
            f"the message is made of over {MAX_VALUES} values; put the data in a file and pass its path, or pass it as "
            "one text"
        )


def refuse_constant(name: str) -> None:
    """Raise ValueError for NaN and the infinities, which Python's decoder accepts."""
    raise ValueError(f"{name} is not JSON")


# `dumps` and `loads` would create one of these for each message.
_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(parse_constant=refuse_constant)


def _field(fields: dict[str, JsonValue], name: str, kind: type[_T]) -> _T:
    if name not in fields:
        raise MessageError(f"the message has no {name!r}")
    value = fields[name]
    if not isinstance(value, kind):
        raise MessageError(f"{name!r} is of type {type(value).__name__} and not {kind.__name__}")
    return value


_END = b"\n"


class InvalidLineError(Exception):
    """The bytes are no request of the script; the rest is not read."""


class TooLargeError(InvalidLineError):
    """The line is longer than any request."""


class IncomingLines:
    """Splits the bytes of a connection into lines, without I/O.

    A line has to begin with a prefix known to the script alone. A line with a wrong prefix is refused at once, so a
    stranger cannot take memory.

    Args:
        prefix: First bytes of each line.
        limit: Longest line in bytes, newline included.
    """

    def __init__(self, prefix: bytes, limit: int = MAX_MESSAGE_BYTES) -> None:
        self._prefix = prefix
        self._limit = limit
        self._begun = bytearray()
        self._searched = 0

    @property
    def size(self) -> int:
        """Bytes of the incomplete line."""
        return len(self._begun)

    def feed(self, data: bytes) -> list[bytes]:
        """Receive bytes, and return the complete lines with their newlines.

        Raises:
            InvalidLineError: A line has another prefix.
            TooLargeError: A line is longer than the limit.
        """
        if not self._begun and data.find(_END) == len(data) - 1 and data.startswith(self._prefix):
            self._check_size(len(data))
            return [data]  # the usual case
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
            raise InvalidLineError
        self._check_size(size)

    def _check_size(self, size: int) -> None:
        if size > self._limit:
            raise TooLargeError
