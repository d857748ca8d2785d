"""The server over HTTP, for several clients at once: each has a session, and an environment of its own."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import anyio
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from uvicorn.protocols.http.h11_impl import H11Protocol

from environments.errors import SettingsError, TerminalError
from hermes_env.mcp.ending import ending_signals
from hermes_env.mcp.gate import PATH, Gate
from hermes_env.mcp.stdio import MAX_MESSAGE_BYTES

LOOPBACK = "127.0.0.1"
MAX_SESSIONS = 100
"""How many clients there may be at once. Further ones are refused until one of them leaves."""
MAX_CONNECTIONS = 1000
"""How many connections there may be at once. A further one takes the place of the oldest that asks for nothing."""
_LEAVING = 5
"""Seconds that answers, and then connections, have to end in when the server does."""


class _Connection(H11Protocol):
    """A connection. Those that ask for nothing, or have not ended what they ask, leave when there is no place."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make place for a client, which strangers without the token may have taken all of."""
        super().connection_made(transport)
        self._since = self.loop.time()
        if len(self.connections) >= MAX_CONNECTIONS:
            others = (each for each in self.connections if each is not self and isinstance(each, _Connection))
            idle = [each for each in others if each.is_idle]
            if idle:
                min(idle, key=lambda each: each._since).leave()

    @property
    def is_idle(self) -> bool:
        """True if no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def leave(self) -> None:
        """Close the connection at once."""
        self.connections.discard(self)
        self.transport.abort()


class _Web(uvicorn.Server):
    """Serves HTTP until it is told to stop."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to us, as sessions have to end before connections do."""
        yield


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
        """Where clients connect to."""
        self.hosts = (shown, LOOPBACK, "localhost", "[::1]", socket.gethostname())
        """The names by which this machine is known to be called."""

    def close(self) -> None:
        """Give the port back."""
        self.socket.close()


async def serve_http(
    server: Server[Any],
    listener: Listener,
    token: str,
    *,
    hosts: Sequence[str],
    idle_timeout: float,
    when_ready: Callable[[], object],
) -> None:
    """Serve clients until a signal ends us. What they have started is then ended.

    Args:
        server: What answers.
        listener: Where they connect to. It is closed in the end.
        token: What each request has to bring.
        hosts: Further names by which this machine may be called.
        idle_timeout: Seconds without any request after which a session is ended.
        when_ready: Called once clients are served.
    """
    manager = StreamableHTTPSessionManager(
        server,
        session_idle_timeout=idle_timeout,
        max_request_body_size=MAX_MESSAGE_BYTES,
        max_sessions=MAX_SESSIONS,
    )
    gate = Gate(manager.handle_request, token, (*listener.hosts, *hosts))
    # Of a client that goes in the middle of something, it tells with a traceback.
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
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=_LEAVING,
    )
    web = _Web(config)
    async with ending_signals() as ended, anyio.create_task_group() as group:
        async with manager.run():
            group.start_soon(web.serve, [listener.socket])
            when_ready()
            await ended.wait()
            await gate.close(_LEAVING)
        web.should_exit = True  # once all sessions have ended


def _parsed(where: str) -> tuple[str, int]:
    host, _, port = where.rpartition(":")
    if port.isdecimal() and port.isascii() and len(port) <= 5 and int(port) < 2**16:
        return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)
    raise SettingsError(f"--http {where}: it should be HOST:PORT, such as {LOOPBACK}:8000, or a port")
