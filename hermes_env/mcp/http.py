"""The transport over HTTP, for several clients at once. Each has a session, and an environment of its own."""

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
from hermes_env.mcp.session import GONE

LOOPBACK, PATH = "127.0.0.1", "/mcp"
MAX_SESSIONS = 100
"""How many clients there may be at once. Further ones are refused until one of them leaves."""
MAX_CONNECTIONS = 1000
"""How many connections there may be at once. A further one closes an idle one, the oldest without a token first."""
BACKLOG = 64
"""How many connections are accepted at once, before any of them can be closed."""
_LEAVING = 5
"""Seconds that answers, and then connections, have to end in when the server does."""
_POLL = 0.05
_PLACE = re.compile(r"(\[[0-9a-f:.]*\]|[^:@\[\]]+)(?::[0-9]{1,5})?")
"""A host, with a port or without."""


class Listener:
    """A port of this machine that clients connect to.

    Args:
        where: `HOST:PORT`, or a port of this machine alone. Port 0 takes one that is free.

    Raises:
        SettingsError: It is neither.
        TerminalError: The port cannot be had.
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
        """Whether only this machine can connect."""
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
    """Print the address, and serve clients until a signal comes. What they have started is then ended.

    Returns whether the signal was that of Ctrl-C.

    Args:
        server: The server.
        listener: The port. It is closed in the end.
        token: The bearer token of each request.
        hosts: Further names of this machine.
        idle_timeout: Seconds without any request after which a session ends, and a connection closes.
    """
    manager = StreamableHTTPSessionManager(
        server,
        session_idle_timeout=idle_timeout,
        max_request_body_size=MAX_MESSAGE_BYTES,
        max_sessions=MAX_SESSIONS,
    )
    gate = Gate(manager.handle_request, token, (*listener.hosts, *hosts))
    # It logs a traceback when a client disconnects during an answer.
    logging.getLogger("mcp.server.streamable_http").setLevel(logging.CRITICAL)
    config = uvicorn.Config(
        gate,
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
        timeout_graceful_shutdown=_LEAVING,
    )
    web, ended = _Web(config), anyio.Event()
    async with ended_by_signals(ended.set) as came, anyio.create_task_group() as group:
        async with manager.run():
            group.start_soon(web.serve, [listener.socket])
            print(listener.url, flush=True)
            await ended.wait()
            await gate.close(_LEAVING)
        web.should_exit = True  # once all sessions have ended
    return signal.SIGINT in came


def most_connections() -> int:
    """Return how many connections there may be: at most half of the descriptors that this process may open."""
    return min(MAX_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


class _Web(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: sessions have to end before connections do."""
        yield


class _Connection(H11Protocol):
    """A connection. An idle one is closed for a new one when there are too many."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for a client: idle connections need no token, and any program of this machine can open them."""
        super().connection_made(transport)
        self._since = self.loop.time()
        if self.limit_concurrency and len(self.connections) >= self.limit_concurrency:
            others = (each for each in self.connections if each is not self and isinstance(each, _Connection))
            idle = [each for each in others if each.cycle is None or each.cycle.response_complete]
            if idle:
                leaving = min(idle, key=lambda each: (each.has_token, each._since))
                self.connections.discard(leaving)
                leaving.transport.abort()

    @property
    def has_token(self) -> bool:
        """Whether its last request has passed the gate."""
        return self.cycle is not None and GONE in self.cycle.scope


class Gate:
    """Refuses requests by their origin, host, path, token and protocol version, before the server has them.

    Args:
        app: The server behind it.
        token: The bearer token of each request.
        hosts: The names of this machine. A browser's page that calls it by another name, or that comes from another
            place, is refused: its visitor may be one who can reach this server.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Iterable[str]) -> None:
        self._app, self._token = app, token.encode()
        self._hosts = {name.lower() for name in hosts}
        self._is_closed = False
        self._waiting: set[anyio.Event] = set()
        """An event for each request whose answer a client waits for."""

    async def close(self, patience: float) -> None:
        """Refuse all further requests, cancel all calls, and wait for their answers to be sent.

        Args:
            patience: Seconds to wait at most, as a client may not read its answer.
        """
        self._is_closed = True
        for gone in self._waiting:
            gone.set()
        with anyio.move_on_after(patience):
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
        gone = scope[GONE] = anyio.Event()
        if request.method == "POST":
            self._waiting.add(gone)
        is_complete = False

        async def answer(message: Message) -> None:
            nonlocal is_complete
            await send(message)
            is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)

        try:
            await self._app(scope, receive, answer)
        except RuntimeError:
            if not is_complete:  # it is raised as well when a notification meets the end of its session
                raise
        finally:
            self._waiting.discard(gone)
            gone.set()

    def _refusal_of_place(self, headers: Headers) -> Response | None:
        if not self._knows(headers.get("host", "")):
            return _error(HTTPStatus.MISDIRECTED_REQUEST, "Host is not a name of this machine; --allow-host adds one")
        scheme, _, place = headers.get("origin", "").partition("://")
        if headers.get("origin") and not (scheme in ("http", "https") and self._knows(place)):
            return _error(HTTPStatus.FORBIDDEN, "Origin is not a page of this machine; --allow-host adds a name")
        return None

    def _knows(self, place: str) -> bool:
        """Return whether a host is this machine. It is compared whole, with its port and without."""
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
