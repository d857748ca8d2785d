"""Client of the Docker engine over dialled connections: a Unix socket, TCP, or `dial-stdio` on another machine."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import queue
import re
import select
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from docker import APIClient
from docker.errors import DockerException
from docker.transport.basehttpadapter import BaseHTTPAdapter
from requests.exceptions import RequestException
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection

from environments.errors import EnvironmentStartError
from environments.loop import current, run
from environments.output import Channel
from environments.shell.host import RemoteHost
from environments.shell.outgoing import Outgoing
from environments.shell.pool import opened
from environments.shell.stream import Stream
from environments.starting import current_start

if TYPE_CHECKING:
    from requests import PreparedRequest, Response
    from requests.adapters import BaseAdapter
    from urllib3.response import HTTPResponse

ENGINE_ERRORS = (DockerException, RequestException, OSError)
"""All errors of docker-py: its own, and those of the HTTP library below."""
Dial = Callable[[], socket.socket]

ENGINE_TIMEOUT = 60
"""Seconds for the engine to answer a request. Creating a container takes 0.1 s on an idle engine."""
MAX_IDLE = 8
"""Idle connections in the pool: enough for each process of a burst of starts."""
_PLACEHOLDER_SOCKET = "unix:///docker.sock"
"""A placeholder address for docker-py, which never connects to it."""
_PAUSE = 0.1
"""Seconds between attempts to connect to a socket with a full backlog."""
_SEND_BUFFER = 1024 * 1024
"""Send buffer of a Unix socket in bytes. The socket counts as writable once three quarters are read; the usual 208 KB
are drained by then, and the reader starves."""
_KEEPALIVE_IDLE = 30
"""Seconds of silence before TCP keepalive checks a link to the engine and finds a dead link."""
versions: dict[str, str] = {}
"""API versions of engines by address. Each engine is asked once."""
READ_SIZE = 256 * 1024
"""Bytes of one read from the client, and of back-pressure: more unsent bytes pause the stream."""
_MAX_STDERR = 4096
"""Bytes of stderr to keep for an error message."""
_EXIT_LIMIT = 5.0
"""Seconds for the exit code of the `dial-stdio` process after the end of its output."""
NO_PROGRAM = 127
# A shell without a login may have a shorter PATH than a login shell. Podman has the same command.
_DIAL_STDIO = f"""\
PATH=${{PATH:+$PATH:}}/usr/local/bin:/usr/bin:/bin:/snap/bin
for program in docker podman; do
    command -v $program >/dev/null 2>&1 && exec $program system dial-stdio
done
exit {NO_PROGRAM}
"""
_NOT_ALLOWED = re.compile(r"permission denied", re.IGNORECASE)
_NOT_RUNNING = re.compile(r"cannot connect|connection refused|no such file|is the docker daemon running", re.IGNORECASE)
_TOO_OLD = re.compile(r"dial-stdio.*not a|unknown (command|flag)|unrecognized command|usage:", re.IGNORECASE)


class BreakableClient(APIClient):
    """An engine client with requests that another thread can abort; docker-py has no way to.

    A request during the start of an environment is aborted when that start is stopped. This includes the constructor.

    Args:
        engine: Address of the engine, for messages and for programs such as `docker --host`.
        dial: Connects to the engine. docker-py would connect to a Unix socket anew for each request.
    """

    def __init__(self, engine: str, dial: Dial) -> None:
        self.engine = engine
        self._adapter = _Adapter(dial)
        super().__init__(_PLACEHOLDER_SOCKET, version="auto", timeout=ENGINE_TIMEOUT)

    def _retrieve_server_version(self) -> str:
        # GET /_ping is the cheapest request. For `version`, Podman has the package manager of its machine look up all
        # programs of Podman.
        version = versions.get(self.engine)
        if version is None:
            answer = self.get(f"{self.base_url}/_ping", timeout=self.timeout)
            version = answer.headers.get("Api-Version") or str(self.version(api_version=False)["ApiVersion"])
            versions[self.engine] = version
        return version

    def get_adapter(self, url: str) -> BaseAdapter:
        return self._adapter

    def send(self, request: PreparedRequest, **how: Any) -> Response:  # noqa: ANN401 - as in requests
        with current_start().aborting(self.abort):
            return super().send(request, **how)

    def abort(self) -> None:
        """Abort all running requests."""
        self._adapter.pool.abort()

    def close(self) -> None:
        super().close()
        self._adapter.close()


class _Adapter(BaseHTTPAdapter):
    """Sends requests over the connections of one pool."""

    def __init__(self, dial: Dial) -> None:
        super().__init__()
        self.pool = _Pool(dial)

    def get_connection_with_tls_context(self, *_: object, **__: object) -> HTTPConnectionPool:
        """Return the single pool, see `requests.adapters.HTTPAdapter`."""
        return self.pool

    def request_url(self, request: PreparedRequest, proxies: object) -> str:
        """Return the path alone: no proxy of this machine leads to the engine."""
        return str(request.path_url)

    def close(self) -> None:
        """Close the idle connections."""
        super().close()
        self.pool.close()


class _Pool(HTTPConnectionPool):
    """Keeps few idle connections, since each takes a session of the host's SSH server.

    A started process takes over the connection of the last request.
    """

    def __init__(self, dial: Dial) -> None:
        super().__init__("localhost", maxsize=MAX_IDLE)
        self._dial = dial
        self._closed = False
        self._lock = threading.Lock()
        self._connections: weakref.WeakSet[_Connection] = weakref.WeakSet()

    def _new_conn(self) -> HTTPConnection:
        connection = _Connection(self._dial)
        with self._lock:
            self._connections.add(connection)
        return connection

    def _put_conn(self, conn: Any) -> None:  # noqa: ANN401 - as in urllib3
        if conn and (self._closed or self.pool is None or self.pool.full()):
            conn.close()
        else:
            super()._put_conn(conn)

    def abort(self) -> None:
        """Shut all connections down."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            if wire := connection.sock:
                with contextlib.suppress(OSError):
                    wire.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the idle connections. Later requests each have a connection of their own."""
        self._closed = True
        with contextlib.suppress(queue.Empty):
            while self.pool is not None:
                if waiting := self.pool.get(block=False):
                    waiting.close()


class _Connection(HTTPConnection):
    """A connection that is dialled on first use."""

    def __init__(self, dial: Dial) -> None:
        super().__init__("localhost")
        self._dial = dial

    def connect(self) -> None:
        """Dial."""
        self.sock = self._dial()

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as in urllib3
        """Read the answer to a request.

        Raises:
            DialError: No engine was reached.
        """
        dialled = self.sock
        try:
            return super().getresponse()
        except (OSError, http.client.HTTPException) as error:
            if isinstance(dialled, DialledSocket) and (failure := dialled.relay.failure):
                raise DialError(failure) from error
            raise


# Dialling.


def dial_unix(path: str) -> socket.socket:
    """Connect to a Unix socket. Retries while the backlog of the engine's socket is full."""
    raw = socket.socket(socket.AF_UNIX)
    try:
        raw.setblocking(False)
        deadline = time.monotonic() + ENGINE_TIMEOUT
        while True:
            try:
                raw.connect(path)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
            current_start().pause(_PAUSE)
        raw.settimeout(ENGINE_TIMEOUT)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    except BaseException:
        raw.close()
        raise
    return raw


def dial_tcp(host: str, port: int) -> socket.socket:
    """Connect to a TCP port, with keepalive."""
    raw = socket.create_connection((host, port), timeout=ENGINE_TIMEOUT)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE)
    return raw


class DialError(ConnectionError):
    """The engine on another machine cannot be reached; the text has the reason and the remedy."""


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes, down to the first."""
    while error:
        yield error
        error = error.__cause__ or error.__context__


class DialledSocket(socket.socket):
    """The client's end of a socket pair. The other end is joined to a stream to the engine's host."""

    relay: _Relay

    def shutdown(self, how: int) -> None:
        """Shut the socket down, see `socket.socket`. A shutdown in both directions closes the stream."""
        super().shutdown(how)
        if how == socket.SHUT_RDWR:
            current().soon(self.relay.client_closed)


def dial(host: RemoteHost) -> DialledSocket:
    """Return a fresh connection to the engine of a host.

    Raises:
        DialError: The host cannot be reached, or no process can be started there.
    """
    try:
        return run(lambda _: _dialled(host))
    except EnvironmentStartError as error:
        raise DialError(str(error)) from error


async def _dialled(host: RemoteHost) -> DialledSocket:
    stream = await opened(host.open_stream, ["/bin/sh", "-c", _DIAL_STDIO])
    ours, theirs = socket.socketpair()
    dialled = DialledSocket(fileno=theirs.detach())
    dialled.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    dialled.relay = _Relay(host, stream, ours)
    return dialled


class _Relay:
    """Relays bytes between a stream to the engine's host and our end of a socket pair."""

    def __init__(self, host: RemoteHost, stream: Stream, ours: socket.socket) -> None:
        self.failure = ""
        """The reason for the missing answer, once the stream has ended; empty if the engine has answered."""
        self.lost_link = False
        """True if the stream ended with the link to the host. The exit codes of its processes are unknown then."""
        self._host = host
        self._stream = stream
        self._ours = ours
        ours.setblocking(False)
        self._loop, self._poller = current().loop, current().poller
        self._outgoing = Outgoing(ours.fileno(), lambda: ours.shutdown(socket.SHUT_WR))
        self._draining: asyncio.Task[None] | None = None
        self._stderr = b""
        self._has_answered = False
        stream.start(self)
        self._poller.watch_readable(ours.fileno(), self._readable)

    def _readable(self) -> None:
        """Forward the client's request."""
        try:
            data = self._ours.recv(READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._poller.watch_readable(self._ours.fileno(), None)
        self._sending = self._loop.create_task(self._send(data))

    async def _send(self, data: bytes) -> None:
        if self._stream.has_ended:  # our end is closed, or about to be
            return
        if data:
            with contextlib.suppress(BrokenPipeError):
                self._stream.write(data)
                await self._stream.drain()
            if not self._stream.has_ended:
                self._poller.watch_readable(self._ours.fileno(), self._readable)
        elif _is_fully_closed(self._ours):
            await self._stream.close()
        else:
            self._stream.close_write()

    def data_received(self, channel: Channel, data: bytes) -> None:
        """Forward the engine's answer, and keep the stderr of the `dial-stdio` process."""
        if channel is Channel.STDERR:
            self._stderr = (self._stderr + data)[:_MAX_STDERR]
            return
        self._has_answered = True
        with contextlib.suppress(BrokenPipeError):
            self._outgoing.write(data)
        if len(self._outgoing) > READ_SIZE and self._draining is None:
            self._stream.pause()
            self._draining = self._loop.create_task(self._drain())

    async def _drain(self) -> None:
        await self._outgoing.drain()
        self._draining = None
        self._stream.resume()

    def stream_ended(self) -> None:
        """Store the reason, and end the client's input."""
        self._ending = self._loop.create_task(self._end())

    async def _end(self) -> None:
        code = await self._stream.exit_code(_EXIT_LIMIT)
        self.lost_link = code is None
        if not self._has_answered:
            self.failure = _failure_reason(self._host, code, self._stderr.decode("utf-8", "replace").strip())
        await self._outgoing.drain()
        self._outgoing.close()
        self._poller.watch_readable(self._ours.fileno(), None)
        self._ours.close()
        await self._stream.close()

    def client_closed(self) -> None:
        """Close the stream after the client has left."""
        self._outgoing.close()
        self._leaving = self._loop.create_task(self._stream.close())


def _is_fully_closed(connected: socket.socket) -> bool:
    """Return True if the other end is fully closed, not only its sending half."""
    poll = select.poll()
    poll.register(connected, 0)  # POLLHUP is always reported
    return bool(poll.poll(0))


def _failure_reason(host: RemoteHost, exit_code: int | None, stderr: str) -> str:
    """Return the reason why no engine answers on the host, and the remedy."""
    if exit_code is None:
        return host.target_loss() or f"the link to {host.place} dropped"
    user = host.place.partition("@")[0]
    stderr = " ".join(stderr.split())
    if exit_code == NO_PROGRAM and not stderr:
        return (
            f"there is no docker program on {host.place} to reach the engine with; install it there, or put it on "
            "the PATH of commands over SSH"
        )
    if _NOT_ALLOWED.search(stderr):
        return (
            f"user {user} may not use the engine of {host.place} ({stderr}): add the user to the group docker there "
            f"(sudo usermod -aG docker {user}), or run an engine of the user's own (rootless Docker or Podman)"
        )
    if _NOT_RUNNING.search(stderr):
        return f"the engine of {host.place} does not answer ({stderr}); start it there"
    if _TOO_OLD.search(stderr):
        return f"docker on {host.place} has no `docker system dial-stdio` ({stderr}); have version 18.09 or later there"
    return f"the engine of {host.place} does not answer: {stderr or f'docker ended with exit code {exit_code}'}"
