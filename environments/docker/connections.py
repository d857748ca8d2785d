"""A client of the engine whose requests can be broken off from another thread, for which docker-py has no way."""

from __future__ import annotations

import contextlib
import http.client
import queue
import socket
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from docker import APIClient
from docker.transport.basehttpadapter import BaseHTTPAdapter
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection

from environments.docker.dial import DialError, DialledSocket
from environments.starting import current_start

if TYPE_CHECKING:
    from requests import PreparedRequest, Response
    from requests.adapters import BaseAdapter
    from urllib3.response import HTTPResponse

Dial = Callable[[], socket.socket]

SPARE = 8
"""Dialled connections that may wait for a request: one for each process that is being started at the same time."""
_ANY_SOCKET = "unix:///docker.sock"
"""What docker-py is told of an engine that it does not connect to by itself."""
_PAUSE = 0.1
"""Seconds until a socket is tried again that too many wait for."""
_versions: dict[str, str] = {}
"""The versions of the interface that engines have answered to, by address, so that each is asked once."""


class BreakableClient(APIClient):
    """Knows the connections under its requests, so that an answer that never comes need not be waited for.

    What it asks for while an environment starts, also while it is made itself, ends when that start is stopped.

    Args:
        engine: Where the engine is, for people, and for the programs that take such an address.
        dial: Connects to it; None leaves that to docker-py.
        options: As for `APIClient`.
    """

    def __init__(
        self,
        engine: str,
        dial: Dial | None = None,
        **options: Any,  # noqa: ANN401 - they are those of docker-py
    ) -> None:
        self.engine = engine
        self._lock = threading.Lock()
        self._connections: weakref.WeakSet[HTTPConnection] = weakref.WeakSet()
        self._dialling = _DiallingAdapter(dial) if dial else None
        super().__init__(**{**options, "base_url": _ANY_SOCKET} if dial else options)

    def _retrieve_server_version(self) -> str:
        """Ask for the version of the interface, see `APIClient`, in the way that costs an engine least.

        For `version` Podman has the package manager of its machine look for all programs that it is made of.
        """
        if known := _versions.get(self.engine):
            return known
        answer = self.get(f"{self.base_url}/_ping", timeout=self.timeout)
        version = answer.headers.get("Api-Version") or str(self.version(api_version=False)["ApiVersion"])
        _versions[self.engine] = version
        return version

    def get_adapter(self, url: str) -> BaseAdapter:
        """Return what sends requests to a URL, see `requests.Session`."""
        adapter: BaseAdapter = self._dialling or super().get_adapter(url)
        own = vars(adapter)
        if "get_connection_with_tls_context" not in own:
            find = adapter.get_connection_with_tls_context  # type: ignore[attr-defined]
            own["get_connection_with_tls_context"] = lambda *args, **named: self._watched(find(*args, **named))
        return adapter

    def _watched(self, pool: HTTPConnectionPool) -> HTTPConnectionPool:
        """Have a pool tell of each connection that it makes."""
        own = vars(pool)
        if "_new_conn" not in own:
            own["_new_conn"] = lambda make=pool._new_conn: self._noted(make())
        return pool

    def _noted(self, connection: HTTPConnection) -> HTTPConnection:
        with self._lock:
            self._connections.add(connection)
        return connection

    def send(self, request: PreparedRequest, **how: Any) -> Response:  # noqa: ANN401 - as in requests
        """Send a request, see `requests.Session`."""
        with current_start().aborting(self.break_off):
            return super().send(request, **how)

    def break_off(self) -> None:
        """Have all requests that are under way fail."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            if wire := connection.sock:
                with contextlib.suppress(OSError):
                    wire.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connections that wait for the next request, see `requests.Session`."""
        super().close()
        if self._dialling:
            self._dialling.close()


class _DiallingAdapter(BaseHTTPAdapter):
    """Sends requests over connections that are dialled, in place of docker-py's own adapters."""

    def __init__(self, dial: Dial) -> None:
        super().__init__()
        self._pool = _DiallingPool(dial)

    def get_connection_with_tls_context(self, *_: object, **__: object) -> HTTPConnectionPool:
        """Return the one pool there is, see `requests.adapters.HTTPAdapter`."""
        return self._pool

    def request_url(self, request: PreparedRequest, proxies: object) -> str:
        """Return the path alone: no proxy of this machine leads there."""
        return str(request.path_url)

    def close(self) -> None:
        """Close the connections that wait for the next request."""
        super().close()
        self._pool.close()


class _DiallingPool(HTTPConnectionPool):
    """Keeps few connections for further requests, as each takes a session of the host's SSH server.

    A process that is started takes over the connection that the last request before went over.
    """

    def __init__(self, dial: Dial) -> None:
        super().__init__("localhost", maxsize=SPARE)
        self._dial = dial
        self._closed = False

    def _new_conn(self) -> HTTPConnection:
        return _DialledConnection(self._dial)

    def _put_conn(self, conn: Any) -> None:  # noqa: ANN401 - as in urllib3
        if conn and (self._closed or self.pool is None or self.pool.full()):
            conn.close()
        else:
            super()._put_conn(conn)

    def close(self) -> None:
        """Close the connections that wait for the next request. A request behind that has one for itself."""
        self._closed = True
        with contextlib.suppress(queue.Empty):
            while self.pool is not None:
                if waiting := self.pool.get(block=False):
                    waiting.close()


class _DialledConnection(HTTPConnection):
    """A connection that is dialled when it is first used."""

    def __init__(self, dial: Dial, timeout: float | None = None) -> None:
        super().__init__("localhost", timeout=timeout)
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
            if isinstance(dialled, DialledSocket) and (trouble := dialled.trouble):
                raise DialError(trouble) from error
            raise


def forget_versions() -> None:
    """Have each engine asked anew which version of the interface it has."""
    _versions.clear()


def dial_unix(path: str, timeout: float) -> socket.socket:
    """Connect to a Unix socket, and wait where too many wait for the engine already.

    Args:
        path: The socket.
        timeout: Seconds until it must have been connected to.
    """
    raw = socket.socket(socket.AF_UNIX)
    try:
        raw.setblocking(False)
        deadline = time.monotonic() + timeout
        while True:
            try:
                raw.connect(path)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
            current_start().pause(_PAUSE)
        raw.settimeout(timeout)
    except BaseException:
        raw.close()
        raise
    return raw
