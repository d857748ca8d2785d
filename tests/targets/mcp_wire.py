"""Raw MCP requests, for cases that the official client lacks."""

from __future__ import annotations

import json
import resource
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}
MODERN = "2026-07-28"
"""The protocol version without `initialize`."""
DISCOVER = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "server/discover",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}
"""A possible first request of a client of version `MODERN`."""


def check_discovery(answer: dict[str, Any]) -> None:
    """Check the response to `DISCOVER` against the newest revision of the specification."""
    from mcp.types import DiscoverResult

    result = answer["result"]
    DiscoverResult.model_validate(result)
    assert (result["resultType"], result["capabilities"]["tools"]) == ("complete", {"listChanged": False})
    assert "environment of this session" in result["instructions"]
    assert {"ttlMs", "cacheScope"} <= set(result)
    assert result["supportedVersions"][-1] == "2025-11-25" and MODERN not in result["supportedVersions"]
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "hermes-env"


def call_of(tool: str, **arguments: Any) -> dict[str, Any]:
    """Return a request that calls a tool."""
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}


def open_request(
    url: str, message: object, token: str | None, *, method: str = "POST", **headers: str
) -> tuple[HTTPConnection, HTTPResponse]:
    """Send a request, and return the open connection and the response's head. The caller closes the connection."""
    where = urlsplit(url)
    connection = HTTPConnection(where.hostname or "", where.port, timeout=60)
    given = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        **({"Authorization": f"Bearer {token}"} if token is not None else {}),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    body = message if isinstance(message, (bytes, str)) else json.dumps(message)
    connection.request(method, where.path, body, given)
    return connection, connection.getresponse()


def request(url: str, message: object, token: str | None, **how: str) -> tuple[int, dict[str, str], str]:
    """Send a request, and return the response's status, headers and text."""
    connection, response = open_request(url, message, token, **how)
    with closing(connection):
        return response.status, dict(response.headers), response.read().decode()


@contextmanager
def files_to_open(most: int) -> Iterator[None]:
    """Limit the open files of this process, and of children started in the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def half_open_connections(url: str, number: int) -> Iterator[None]:
    """Hold a number of connections that send half of a request or no data."""
    place = urlsplit(url)
    with ExitStack() as stack:
        stack.enter_context(files_to_open(4096))
        for each in range(number):
            stranger = stack.enter_context(socket.create_connection((place.hostname, place.port)))
            if each % 2:
                stranger.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        yield


class Pipe:
    """A server on pipes, with one message a line."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        assert process.stdin and process.stdout
        self._to, self._from = process.stdin, process.stdout

    def send(self, message: object) -> None:
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self._to.write(line + b"\n")
        self._to.flush()

    def receive(self) -> dict[str, Any]:
        """Return the next response. Each line has to be a message."""
        while True:
            message = json.loads(self._from.readline())
            assert message["jsonrpc"] == "2.0"
            if "method" not in message:
                return message

    def end(self) -> None:
        self._to.close()
