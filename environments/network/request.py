"""Requests to the proxy: what they ask for, and what of them is sent on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, NamedTuple

from environments.network.rules import Host, parse_host, parse_port, shown, split_port

if TYPE_CHECKING:
    from environments.network.channel import Connection

MOST_HEADERS = 200
_FIRST = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}) ([!-~]+) (HTTP/1\.[01])")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(;[^\r\n]*)?\r\n")
_INTERIM = re.compile(rb"HTTP/1\.[01] 1(?!01)")
_OF_CONNECTIONS = (b"connection", b"keep-alive", b"proxy-connection")
_NOT_SENT_ON = {
    *(b"host", b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive", b"te", b"upgrade"),
}
"""Headers that are for the proxy alone, or that it writes itself."""


class BadRequestError(Exception):
    """The request is none that is understood."""


class Request(NamedTuple):
    """A request to the proxy."""

    host: Host
    port: int
    is_tunnel: bool
    """True for CONNECT: all that follows is for the host."""
    head: bytes = b""
    """What is sent to the host before the body."""
    size: int | None = 0
    """Bytes of its body; None if it comes in chunks."""

    @classmethod
    def parse(cls, text: bytes) -> Request:
        """Read a request up to the empty line behind its headers.

        The host is that of the request line, whatever the header `Host` says: that is written anew.

        Raises:
            BadRequestError: It is not understood.
        """
        first, *lines = text.removesuffix(b"\r\n\r\n").split(b"\r\n")
        found = _FIRST.fullmatch(first)
        if not found or len(lines) > MOST_HEADERS:
            raise BadRequestError("this is a proxy; send it `CONNECT host:port` or `GET http://host/`")
        method, target, version = found.groups()
        headers = [_header(line) for line in lines]
        if method == b"CONNECT":
            return cls(*_authority(target, None), is_tunnel=True)
        if target[:7].lower() != b"http://":
            raise BadRequestError("this is a proxy; send it `CONNECT host:port` or `GET http://host/`")
        authority, path = re.fullmatch(rb"([^/?#]*)(.*)", target[7:]).groups()  # type: ignore[union-attr]  # any text
        host, port = _authority(authority, 80)
        if b"#" in path:
            raise BadRequestError("a fragment is no part of a request")
        path = path if path.startswith(b"/") else b"/" + path
        named = shown(host, port).removesuffix(":80").encode()
        dropped = {name.strip().lower() for key, value in headers if key == b"connection" for name in value.split(b",")}
        dropped = (dropped - {b"content-length", b"transfer-encoding"}) | _NOT_SENT_ON
        kept = [(b"Host", named), *(each for each in headers if each[0] not in dropped), (b"Connection", b"close")]
        head = b"".join(b"%s: %s\r\n" % header for header in kept)
        return cls(host, port, False, b"%s %s %s\r\n%s\r\n" % (method, path, version, head), _body_size(headers))

    async def body(self, connection: Connection) -> AsyncIterator[bytes]:
        """Go through the body, and not through what is behind it.

        Raises:
            BadRequestError: Its chunks are not understood.
            ConnectionError: It does not come to its end.
        """
        if self.size is not None:
            async for part in _exactly(connection, self.size):
                yield part
            return
        while True:
            line = await connection.read_until(b"\r\n")
            found = _CHUNK.fullmatch(line)
            if not found:
                raise BadRequestError("a chunk has no size")
            yield line
            if not int(found[1], 16):
                break
            async for part in _exactly(connection, int(found[1], 16)):
                yield part
            if await connection.read_until(b"\r\n") != b"\r\n":
                raise BadRequestError("a chunk is longer than its size")
            yield b"\r\n"
        for _ in range(MOST_HEADERS):
            yield (line := await connection.read_until(b"\r\n"))
            if line == b"\r\n":
                return
        raise BadRequestError("there are too many trailers")


async def response_heads(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Read the heads of a response up to the final one, and have that tell the program that its connection ends.

    A program would send its next request on it otherwise, if the host has said nothing of that.
    """
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            yield error.partial
            return
        except asyncio.LimitOverrunError:  # it is no head, and is passed on as it is
            return
        if _INTERIM.match(head):
            yield head
            continue
        first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
        kept = [line for line in lines if line.partition(b":")[0].strip().lower() not in _OF_CONNECTIONS]
        yield b"\r\n".join([first, *kept, b"Connection: close", b"", b""])
        return


async def _exactly(connection: Connection, size: int) -> AsyncIterator[bytes]:
    while size:
        part = await connection.read(min(size, 65536))
        if not part:
            raise ConnectionResetError("the request ends within its body")
        size -= len(part)
        yield part


def _header(line: bytes) -> tuple[bytes, bytes]:
    found = _HEADER.fullmatch(line)
    if not found:
        raise BadRequestError("a header is not understood")
    return found[1].lower(), found[2].rstrip(b" \t")


def _authority(text: bytes, usual: int | None) -> tuple[Host, int]:
    """Return host and port of a request."""
    host, port = split_port(text.decode("ascii"))
    try:
        if not port and usual is None:
            raise ValueError("CONNECT needs a port")
        return parse_host(host), parse_port(port) if port else (usual or 0)
    except ValueError as error:
        raise BadRequestError(f"{text.decode('ascii')[:100]} names no host and port: {error}") from None


def _body_size(headers: list[tuple[bytes, bytes]]) -> int | None:
    lengths = {value for name, value in headers if name == b"content-length"}
    codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    if codings:
        if codings != [b"chunked"] or lengths:
            raise BadRequestError("the length of the body is not clear")
        return None
    if not lengths:
        return 0
    length = lengths.pop()
    if lengths or not re.fullmatch(rb"[0-9]{1,15}", length):
        raise BadRequestError("the length of the body is not clear")
    return int(length)
