"""The transport over HTTP, for several clients at once. Each client has a session with an environment."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import re
import resource
import secrets
import signal
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import anyio
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.inbound import MCP_METHOD_HEADER, MCP_PROTOCOL_VERSION_HEADER
from mcp.types import INTERNAL_ERROR, INVALID_REQUEST, ErrorData, JSONRPCError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from environments.errors import SettingsError, TerminalError
from hermes_env.mcp.server import DISCOVER, MAX_MESSAGE_BYTES, ended_by_signals, unsupported
from hermes_env.mcp.session import DISCONNECTED

LOOPBACK, PATH = "127.0.0.1", "/mcp"
MAX_SESSIONS = 100
"""The largest number of clients. Further clients are refused until a session ends."""
MAX_CONNECTIONS = 1000
"""The largest number of connections. A new connection closes an idle one, the oldest without a token first."""
BACKLOG = 64
"""The backlog of the listening socket."""
_GRACE = 5
"""Seconds for answers, and then for connections, to end at the shutdown."""
_POLL = 0.05
_PLACE = re.compile(r"(\[[0-9a-f:.]*\]|[^:@\[\]]+)(?::[0-9]{1,5})?")
"""A host, with a port or without."""


class Listener:
    """A listening port of this machine.

    Args:
        where: `HOST:PORT`, or a port on the loopback address. Port 0 selects a free port.

    Raises:
        SettingsError: `where` is neither.
        TerminalError: The port is not available.
    """

    def __init__(self, where: str) -> None:
        host, port = _parsed(where)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self.socket = socket.create_server((host, port), family=family)
        except OSError as error:
            raise TerminalError(f"cannot listen on {where}: {error.strerror}; give --http another HOST:PORT") from error
        address, self.port = self.socket.getsockname()[:2]
        self.is_local = ipaddress.ip_address(address).is_loopback
        """True if only this machine can connect."""
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self.port}{PATH}"
        """The address for clients."""
        self.hosts = (shown, LOOPBACK, "localhost", "[::1]", socket.gethostname())
        """The known names of this machine."""


def _parsed(where: str) -> tuple[str, int]:
    host, _, port = where.rpartition(":")
    if port.isdecimal() and port.isascii() and len(port) <= 5 and int(port) < 2**16:
        return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)
    raise SettingsError(f"--http {where}: it should be HOST:PORT, such as {LOOPBACK}:8000, or a port")


async def serve_http(
    server: Server[Any],
    listener: Listener,
    token: str,
    *,
    hosts: Sequence[str],
    idle_timeout: float,
) -> bool:
    """Print the address, serve clients until a signal, then end all processes of the clients.

    Args:
        server: The server.
        listener: The port, closed at the end.
        token: The bearer token of each request.
        hosts: Further names of this machine.
        idle_timeout: Seconds without any request until a session ends, and a connection closes.

    Returns:
        True after SIGINT (Ctrl-C).
    """
    manager = StreamableHTTPSessionManager(
        server,
        session_idle_timeout=idle_timeout,
        max_request_body_size=MAX_MESSAGE_BYTES,
        max_sessions=MAX_SESSIONS,
    )
    app = RequestFilter(manager.handle_request, token, (*listener.hosts, *hosts))
    # The SDK logs a traceback when a client disconnects during an answer.
    logging.getLogger("mcp.server.streamable_http").setLevel(logging.CRITICAL)
    config = uvicorn.Config(
        app,
        http=_Connection,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        limit_concurrency=most_connections(),
        timeout_keep_alive=math.ceil(idle_timeout),
        timeout_graceful_shutdown=_GRACE,
    )
    web, ended = _Web(config), anyio.Event()
    async with ended_by_signals(ended.set) as signals, anyio.create_task_group() as group:
        async with manager.run():
            group.start_soon(web.serve, [listener.socket])
            print(listener.url, flush=True)
            await ended.wait()
            await app.close(_GRACE)
        web.should_exit = True  # once all sessions have ended
    return signal.SIGINT in signals


def most_connections() -> int:
    """Return the largest number of connections: at most half of this process's limit on file descriptors."""
    return min(MAX_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


class _Web(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # without handlers: sessions have to end before connections do


class _Connection(H11Protocol):
    """A connection. Above the limit, a new connection closes an idle one.

    Idle connections need no token, so any program of this machine can open them.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        if self.limit_concurrency and len(self.connections) >= self.limit_concurrency:
            others = (each for each in self.connections if each is not self and isinstance(each, _Connection))
            idle = [each for each in others if each.cycle is None or each.cycle.response_complete]
            if idle:
                oldest = min(idle, key=lambda each: (each.has_token, each._since))
                self.connections.discard(oldest)
                oldest.transport.abort()

    @property
    def has_token(self) -> bool:
        """True if the last request has passed the filter."""
        return self.cycle is not None and DISCONNECTED in self.cycle.scope


class RequestFilter:
    """Checks the origin, host, path, token and protocol version of each request before the server.

    Args:
        app: The server behind the filter.
        token: The bearer token of each request.
        hosts: The names of this machine. Requests with another host or origin are refused: a web page of another site
            could use its visitor's browser to reach this server.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Iterable[str]) -> None:
        self._app, self._token = app, token.encode()
        self._hosts = {name.lower() for name in hosts}
        self._is_closed = False
        self._waiting: set[anyio.Event] = set()
        """An event for each unanswered request."""

    async def close(self, timeout: float) -> None:
        """Refuse all further requests, cancel all calls, and wait until their answers were sent.

        Args:
            timeout: Largest number of seconds to wait: a client may not read the answer.
        """
        self._is_closed = True
        for disconnected in self._waiting:
            disconnected.set()
        with anyio.move_on_after(timeout):
            while self._waiting:
                await anyio.sleep(_POLL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on."""
        if scope["type"] != "http":
            return
        request = Request(scope)
        if refusal := self._refusal_of_place(request.headers) or self._refusal(request):
            await refusal(scope, receive, send)
            return
        disconnected = scope[DISCONNECTED] = anyio.Event()
        if request.method == "POST":
            self._waiting.add(disconnected)
        is_complete = False

        async def answer(message: Message) -> None:
            nonlocal is_complete
            await send(message)
            is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)

        try:
            await self._app(scope, receive, answer)
        except RuntimeError:
            if not is_complete:  # also raised for a notification at the end of its session
                raise
        finally:
            self._waiting.discard(disconnected)
            disconnected.set()

    def _refusal_of_place(self, headers: Headers) -> Response | None:
        if not self._is_known(headers.get("host", "")):
            return _error(HTTPStatus.MISDIRECTED_REQUEST, "Host is not a name of this machine; --allow-host adds one")
        scheme, _, place = headers.get("origin", "").partition("://")
        if headers.get("origin") and not (scheme in ("http", "https") and self._is_known(place)):
            return _error(HTTPStatus.FORBIDDEN, "Origin is not a page of this machine; --allow-host adds a name")
        return None

    def _is_known(self, place: str) -> bool:
        """Return True if a host is a name of this machine, compared with and without the port."""
        found = _PLACE.fullmatch(place.lower())
        return found is not None and not self._hosts.isdisjoint((found[0], found[1]))

    def _refusal(self, request: Request) -> Response | None:
        if self._is_closed:
            return _error(HTTPStatus.SERVICE_UNAVAILABLE, "The server is ending", INTERNAL_ERROR)
        if request.url.path.rstrip("/") != PATH:
            return _error(HTTPStatus.NOT_FOUND, f"There is nothing here but {PATH}")
        if not self._has_token(request):
            refusal = _error(HTTPStatus.UNAUTHORIZED, "The bearer token is missing or wrong")
            refusal.headers["WWW-Authenticate"] = "Bearer"
            return refusal
        version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
        is_discovery = version in MODERN_PROTOCOL_VERSIONS and request.headers.get(MCP_METHOD_HEADER) == DISCOVER
        if version is None or version in HANDSHAKE_PROTOCOL_VERSIONS or is_discovery:
            return None
        return _response(HTTPStatus.BAD_REQUEST, unsupported(version))

    def _has_token(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and secrets.compare_digest(given.strip().encode(), self._token)


def _error(status: HTTPStatus, message: str, code: int = INVALID_REQUEST) -> Response:
    return _response(status, ErrorData(code=code, message=message))


def _response(status: HTTPStatus, error: ErrorData) -> Response:
    body = JSONRPCError(jsonrpc="2.0", id=None, error=error).model_dump_json(exclude_none=True)
    return Response(body, status, media_type="application/json")
