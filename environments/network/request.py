"""Requests to the proxy: parsing and forwarding."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, NamedTuple

from environments.network.allow_list import Host, host_and_port, parse_host, parse_port, split_port

if TYPE_CHECKING:
    from environments.network.multiplexer import TargetConnection

MAX_HEADERS = 200
_FIRST = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}) ([!-~]+) (HTTP/1\.[01])")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(;[^\r\n]*)?\r\n")
_INTERIM = re.compile(rb"HTTP/1\.[01] 1(?!01)")
_CONNECTION_HEADERS = (b"connection", b"keep-alive", b"proxy-connection")
_DROPPED_HEADERS = {
    *(b"host", b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive", b"te", b"upgrade"),
}
"""Headers that are meant for the proxy, or that it writes itself."""


class BadRequestError(Exception):
    """The request is malformed."""


class ProxyRequest(NamedTuple):
    """A request to the proxy."""

    host: Host
    port: int
    is_tunnel: bool
    """True for CONNECT: all further bytes are for the host."""
    head: bytes = b""
    """Bytes to send to the host before the body."""
    size: int | None = 0
    """Bytes of the body; None for a chunked body."""

    @classmethod
    def parse(cls, text: bytes) -> ProxyRequest:
        """Parse a request, up to the empty line after its headers.

        The host is taken from the request line. The header `Host` is ignored and replaced.

        Raises:
            BadRequestError: The request is malformed.
        """
        first, *lines = text.removesuffix(b"\r\n\r\n").split(b"\r\n")
        found = _FIRST.fullmatch(first)
        if not found or len(lines) > MAX_HEADERS:
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
        named = host_and_port(host, port).removesuffix(":80").encode()
        dropped = {name.strip().lower() for key, value in headers if key == b"connection" for name in value.split(b",")}
        dropped = (dropped - {b"content-length", b"transfer-encoding"}) | _DROPPED_HEADERS
        kept = [(b"Host", named), *(each for each in headers if each[0] not in dropped), (b"Connection", b"close")]
        head = b"".join(b"%s: %s\r\n" % header for header in kept)
        return cls(host, port, False, b"%s %s %s\r\n%s\r\n" % (method, path, version, head), _body_size(headers))

    async def body(self, connection: TargetConnection) -> AsyncIterator[bytes]:
        """Yield the body, and no bytes after it.

        Raises:
            BadRequestError: A chunk is malformed.
            ConnectionError: The body is incomplete.
        """
        if self.size is not None:
            async for part in _read_exactly(connection, self.size):
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
            async for part in _read_exactly(connection, int(found[1], 16)):
                yield part
            if await connection.read_until(b"\r\n") != b"\r\n":
                raise BadRequestError("a chunk is longer than its size")
            yield b"\r\n"
        for _ in range(MAX_HEADERS):
            yield (line := await connection.read_until(b"\r\n"))
            if line == b"\r\n":
                return
        raise BadRequestError("there are too many trailers")


async def response_heads(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the heads of a response, up to the final one with `Connection: close` added.

    Otherwise a program may send its next request on the same connection.
    """
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            yield error.partial
            return
        except asyncio.LimitOverrunError:  # not a head; forwarded unchanged
            return
        if _INTERIM.match(head):
            yield head
            continue
        first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
        kept = [line for line in lines if line.partition(b":")[0].strip().lower() not in _CONNECTION_HEADERS]
        yield b"\r\n".join([first, *kept, b"Connection: close", b"", b""])
        return


async def _read_exactly(connection: TargetConnection, size: int) -> AsyncIterator[bytes]:
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


def _authority(text: bytes, default: int | None) -> tuple[Host, int]:
    """Return host and port of a request."""
    host, port = split_port(text.decode("ascii"))
    try:
        if not port and default is None:
            raise ValueError("CONNECT needs a port")
        return parse_host(host), parse_port(port) if port else (default or 0)
    except ValueError as error:
        raise BadRequestError(f"{text.decode('ascii')[:100]} is not host and port: {error}") from None


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
