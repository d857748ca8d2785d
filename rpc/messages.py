"""What goes over the wire: one JSON object on a line, for a request and for its answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Self, TypeAlias, TypeVar, cast

from environments.errors import TerminalError

_T = TypeVar("_T")

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""The longest line either side accepts, newline included. A tool result of 10 MB fits with escapes in it."""
MAX_ID_CHARACTERS = 200
"""Ids are remembered as long as a script runs, so a forged one must not be able to take memory."""
MAX_VALUES = 250_000
"""How many values a message may be made of. Millions of small ones take seconds to decode, in which no other thread of
Python runs, and many times the memory of the line."""
SMALL_MESSAGE_BYTES = 64 * 1024
"""Messages up to this size can't hold enough to be worth counting."""


class MessageError(TerminalError):
    """A message is not JSON, has the wrong shape, is too large, or holds what JSON can't carry."""


@dataclass(frozen=True, slots=True)
class Request:
    """A script's call of one tool."""

    id: str
    """Unique for each call. A request that arrives twice under one id runs once."""
    tool: str
    """The name of the handler."""
    args: list[JsonValue]
    """The positional arguments."""
    kwargs: dict[str, JsonValue]
    """The arguments by name."""
    token: str
    """Proof that the request comes from the script it was given to."""

    def encode(self) -> bytes:
        """Return the request as one line, which begins with the token, see `request_prefix`.

        Raises:
            MessageError: It is too large, or holds what JSON can't carry.
        """
        return _encode(
            {"token": self.token, "id": self.id, "tool": self.tool, "args": self.args, "kwargs": self.kwargs}
        )

    @classmethod
    def decode(cls, line: bytes) -> Self:
        """Return the request written in `line`.

        Raises:
            MessageError: It is not JSON, has the wrong shape, or is too large.
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
    """The answer to one request: a result, or an error."""

    id: str
    """The request's id; empty when the request could not be read."""
    result: JsonValue = None
    """What the tool returned; of one that failed, an object whose `error` says why."""
    error: str | None = None
    """Why the request was refused, for the script's author to read."""

    def encode(self) -> bytes:
        """Return the answer as one line.

        Raises:
            MessageError: It is too large, or holds what JSON can't carry.
        """
        if self.error is not None:
            return _encode({"id": self.id, "error": self.error})
        return _encode({"id": self.id, "result": self.result})

    @classmethod
    def decode(cls, line: bytes) -> Self:
        """Return the answer written in `line`.

        Raises:
            MessageError: It is not JSON, has the wrong shape, or is too large.
        """
        fields = _decode(line)
        identity = _field(fields, "id", str)
        if "error" in fields:
            return cls(identity, error=_field(fields, "error", str))
        if "result" not in fields:
            raise MessageError("the message has neither 'result' nor 'error'")
        return cls(identity, result=fields["result"])


def request_prefix(token: str) -> bytes:
    """Return what every request with this token begins with, so that all others can be refused unread."""
    return json.dumps({"token": token}, separators=(",", ":")).encode("ascii").removesuffix(b"}") + b","


def too_large(size: int | None = None) -> str:
    """Return the text for a message above the limit, with its size in bytes where that is known."""
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
        # Given bytes, json would guess at UTF-16 and others, in which `_check_values` counts wrong.
        fields = _DECODER.decode(line.decode())
    except (ValueError, RecursionError) as error:
        raise MessageError(f"the message is not JSON ({type(error).__name__})") from error
    if not isinstance(fields, dict):
        raise MessageError(f"the message is a JSON {type(fields).__name__} and not an object")
    return cast("dict[str, JsonValue]", fields)


def _check_values(line: bytes) -> None:
    """Count the values of a message, without making any of them.

    Raises:
        MessageError: There are too many.
    """
    if len(line) <= SMALL_MESSAGE_BYTES:
        return
    # What stands within quotes is not counted. Without escapes, every second part between quotes does.
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


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# `dumps` and `loads` make one of these for each message.
_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _field(fields: dict[str, JsonValue], name: str, kind: type[_T]) -> _T:
    if name not in fields:
        raise MessageError(f"the message has no {name!r}")
    value = fields[name]
    if not isinstance(value, kind):
        raise MessageError(f"{name!r} is of type {type(value).__name__} and not {kind.__name__}")
    return value


_END = b"\n"


class InvalidLineError(Exception):
    """What comes is no request of the script's, and nothing more of it is to be read."""


class TooLargeError(InvalidLineError):
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
            raise InvalidLineError
        self._check_size(size)

    def _check_size(self, size: int) -> None:
        if size > self._limit:
            raise TooLargeError
