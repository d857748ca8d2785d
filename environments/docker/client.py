"""A client of the engine over connections that are dialled here: to a socket, or to the engine of another machine."""

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
"""All that docker-py raises: its own errors, and those of the HTTP library under it."""
Dial = Callable[[], socket.socket]

ENGINE_TIMEOUT = 60
"""Seconds the engine may take to answer one request; making a container takes it 0.1 s where it is not loaded."""
SPARE = 8
"""Connections that may wait for a request: one for each process that is being started at the same time."""
_ANY_SOCKET = "unix:///docker.sock"
"""The address that docker-py is given. It does not connect there."""
_PAUSE = 0.1
"""Seconds until a socket is tried again that too many wait for."""
_SEND_BUFFER = 1024 * 1024
"""Bytes that a Unix socket may hold of what is sent. It counts as writable once three quarters are read, and the usual
208 KB are then gone before more is there."""
_KEEPALIVE_IDLE = 30
"""Seconds of silence after which a TCP link to the engine is checked, so that a dead one is noticed."""
versions: dict[str, str] = {}
"""The versions of the interface that engines have answered to, by address, so that each is asked once."""
READ_SIZE = 256 * 1024
"""Bytes that are taken from the client at a time, and that may wait for it before the stream is paused."""
_MOST_SAID = 4096
"""Bytes of complaints that are kept."""
_EXIT_LIMIT = 5.0
"""Seconds for the exit code of what leads to the engine, once it has ended."""
NO_PROGRAM = 127
# A shell without a login may have less on its PATH than one with it. Podman has the same command.
_DIAL = f"""\
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
    """A client whose requests can be aborted from another thread, for which docker-py has no way.

    What it asks for while an environment starts, also while it is made itself, ends when that start is stopped.

    Args:
        engine: Where the engine is, for people, and for the programs that take such an address.
        dial: Connects to it. docker-py would connect anew for each request to a Unix socket.
    """

    def __init__(self, engine: str, dial: Dial) -> None:
        self.engine = engine
        self._adapter = _Adapter(dial)
        super().__init__(_ANY_SOCKET, version="auto", timeout=ENGINE_TIMEOUT)

    def _retrieve_server_version(self) -> str:
        """Ask for the version of the interface, see `APIClient`, in the way that costs an engine least.

        For `version` Podman has the package manager of its machine look for all programs that it is made of.
        """
        version = versions.get(self.engine)
        if version is None:
            answer = self.get(f"{self.base_url}/_ping", timeout=self.timeout)
            version = answer.headers.get("Api-Version") or str(self.version(api_version=False)["ApiVersion"])
            versions[self.engine] = version
        return version

    def get_adapter(self, url: str) -> BaseAdapter:
        """Return what sends requests to a URL, see `requests.Session`."""
        return self._adapter

    def send(self, request: PreparedRequest, **how: Any) -> Response:  # noqa: ANN401 - as in requests
        """Send a request, see `requests.Session`."""
        with current_start().aborting(self.break_off):
            return super().send(request, **how)

    def break_off(self) -> None:
        """Have all requests that are under way fail."""
        self._adapter.pool.break_off()

    def close(self) -> None:
        """Close the connections that wait for the next request, see `requests.Session`."""
        super().close()
        self._adapter.close()


class _Adapter(BaseHTTPAdapter):
    """Sends requests over the connections of one pool."""

    def __init__(self, dial: Dial) -> None:
        super().__init__()
        self.pool = _Pool(dial)

    def get_connection_with_tls_context(self, *_: object, **__: object) -> HTTPConnectionPool:
        """Return the one pool there is, see `requests.adapters.HTTPAdapter`."""
        return self.pool

    def request_url(self, request: PreparedRequest, proxies: object) -> str:
        """Return the path alone: no proxy of this machine leads there."""
        return str(request.path_url)

    def close(self) -> None:
        """Close the connections that wait for the next request."""
        super().close()
        self.pool.close()


class _Pool(HTTPConnectionPool):
    """Keeps few connections for further requests, as each takes a session of the SSH server of a host.

    A process that is started takes over the connection that the last request before went over.
    """

    def __init__(self, dial: Dial) -> None:
        super().__init__("localhost", maxsize=SPARE)
        self._dial = dial
        self._closed = False
        self._lock = threading.Lock()
        self._made: weakref.WeakSet[_Connection] = weakref.WeakSet()

    def _new_conn(self) -> HTTPConnection:
        made = _Connection(self._dial)
        with self._lock:
            self._made.add(made)
        return made

    def _put_conn(self, conn: Any) -> None:  # noqa: ANN401 - as in urllib3
        if conn and (self._closed or self.pool is None or self.pool.full()):
            conn.close()
        else:
            super()._put_conn(conn)

    def break_off(self) -> None:
        """Shut all connections down."""
        with self._lock:
            made = list(self._made)
        for connection in made:
            if wire := connection.sock:
                with contextlib.suppress(OSError):
                    wire.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connections that wait for the next request. A request behind that has one for itself."""
        self._closed = True
        with contextlib.suppress(queue.Empty):
            while self.pool is not None:
                if waiting := self.pool.get(block=False):
                    waiting.close()


class _Connection(HTTPConnection):
    """A connection that is dialled when it is first used."""

    def __init__(self, dial: Dial) -> None:
        super().__init__("localhost")
        self._dial = dial

    def connect(self) -> None:
        """Dial."""
        self.sock = self._dial()

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as in urllib3
        """Read the answer to a request.

        Raises:
            DialError: There is none, as no engine was reached.
        """
        dialled = self.sock
        try:
            return super().getresponse()
        except (OSError, http.client.HTTPException) as error:
            if isinstance(dialled, DialledSocket) and (trouble := dialled.joint.trouble):
                raise DialError(trouble) from error
            raise


# Dialling.


def dial_unix(path: str) -> socket.socket:
    """Connect to a Unix socket, and wait where too many wait for the engine already."""
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
    """Connect to a TCP port."""
    raw = socket.create_connection((host, port), timeout=ENGINE_TIMEOUT)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE)
    return raw


class DialError(ConnectionError):
    """The engine on another machine cannot be reached. It says why, and what helps."""


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Go through an error and those that it was raised for, down to the first."""
    while error:
        yield error
        error = error.__cause__ or error.__context__


class DialledSocket(socket.socket):
    """The client's end of a pair of sockets, of which the other is joined to a stream to the engine's host."""

    joint: _Joint

    def shutdown(self, how: int) -> None:
        """Shut it down, see `socket.socket`; both ways, so that the stream is closed."""
        super().shutdown(how)
        if how == socket.SHUT_RDWR:
            current().soon(self.joint.leave)


def dial(host: RemoteHost) -> DialledSocket:
    """Return a new connection to the engine of a host, which nothing has been asked over.

    Raises:
        DialError: The host cannot be reached, or no process can be started there.
    """
    try:
        return run(lambda _: _dialled(host))
    except EnvironmentStartError as error:
        raise DialError(str(error)) from error


async def _dialled(host: RemoteHost) -> DialledSocket:
    stream = await opened(host.open_stream, ["/bin/sh", "-c", _DIAL])
    ours, theirs = socket.socketpair()
    dialled = DialledSocket(fileno=theirs.detach())
    dialled.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    dialled.joint = _Joint(host, stream, ours)
    return dialled


class _Joint:
    """Hands bytes on between a stream to the engine's host and our end of a pair of sockets."""

    def __init__(self, host: RemoteHost, stream: Stream, ours: socket.socket) -> None:
        self.trouble = ""
        """The reason why no engine has answered, once the stream has ended; empty if one has."""
        self.has_lost_link = False
        """True if it ended with the link to the host: no exit code is known there."""
        self._host = host
        self._stream = stream
        self._ours = ours
        ours.setblocking(False)
        self._loop, self._poller = current().loop, current().poller
        self._outgoing = Outgoing(ours.fileno(), lambda: ours.shutdown(socket.SHUT_WR))
        self._draining: asyncio.Task[None] | None = None
        self._said = b""
        self._has_answered = False
        stream.start(self)
        self._poller.watch_readable(ours.fileno(), self._readable)

    def _readable(self) -> None:
        """Hand on what the client asks."""
        try:
            data = self._ours.recv(READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._poller.watch_readable(self._ours.fileno(), None)
        self._sending = self._loop.create_task(self._send(data))

    async def _send(self, data: bytes) -> None:
        if self._stream.has_ended:  # and our end is closed, or about to be
            return
        if data:
            with contextlib.suppress(BrokenPipeError):
                self._stream.write(data)
                await self._stream.drain()
            if not self._stream.has_ended:
                self._poller.watch_readable(self._ours.fileno(), self._readable)
        elif _hung_up(self._ours):
            await self._stream.close()
        else:
            self._stream.close_write()

    def data_received(self, channel: Channel, data: bytes) -> None:
        """Hand on what the engine answers, and keep what the program there complains of."""
        if channel is Channel.STDERR:
            self._said = (self._said + data)[:_MOST_SAID]
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
        """Say why, and let the client see the end."""
        self._ending = self._loop.create_task(self._end())

    async def _end(self) -> None:
        code = await self._stream.exit_code(_EXIT_LIMIT)
        self.has_lost_link = code is None
        if not self._has_answered:
            self.trouble = _complaint(self._host, code, self._said.decode("utf-8", "replace").strip())
        await self._outgoing.drain()
        self._outgoing.close()
        self._poller.watch_readable(self._ours.fileno(), None)
        self._ours.close()
        await self._stream.close()

    def leave(self) -> None:
        """Close the stream, as the client has left."""
        self._outgoing.close()
        self._leaving = self._loop.create_task(self._stream.close())


def _hung_up(connected: socket.socket) -> bool:
    """Return True if the other end was closed, and not its half alone."""
    poll = select.poll()
    poll.register(connected, 0)  # what tells of the end is always told
    return bool(poll.poll(0))


def _complaint(host: RemoteHost, exit_code: int | None, said: str) -> str:
    """Say why no engine answers there, and what helps."""
    if exit_code is None:
        return host.target_loss() or f"the link to {host.place} dropped"
    user = host.place.partition("@")[0]
    said = " ".join(said.split())
    if exit_code == NO_PROGRAM and not said:
        return (
            f"there is no docker on {host.place}, whose program leads to the engine; install it there, or put it on "
            "the PATH that a command over SSH has"
        )
    if _NOT_ALLOWED.search(said):
        return (
            f"user {user} may not use the engine of {host.place} ({said}): add the user to the group docker there "
            f"(sudo usermod -aG docker {user}), or run an engine of the user's own (rootless Docker or Podman)"
        )
    if _NOT_RUNNING.search(said):
        return f"the engine of {host.place} does not answer ({said}); start it there"
    if _TOO_OLD.search(said):
        return f"docker on {host.place} has no `docker system dial-stdio` ({said}); have version 18.09 or later there"
    return f"the engine of {host.place} does not answer: {said or f'docker ended with exit code {exit_code}'}"
