"""A client of the engine whose requests can be broken off from another thread, for which docker-py has no way."""

from __future__ import annotations

import contextlib
import socket
import threading
import weakref
from typing import TYPE_CHECKING, Any

from docker import APIClient

from environments.starting import current_start

if TYPE_CHECKING:
    from requests import PreparedRequest, Response
    from requests.adapters import BaseAdapter
    from urllib3 import HTTPConnectionPool
    from urllib3.connection import HTTPConnection


class BreakableClient(APIClient):
    """Knows the connections under its requests, so that an answer that never comes need not be waited for.

    What it asks for while an environment starts, also while it is made itself, ends when that start is stopped.

    Args:
        options: As for `APIClient`.
    """

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - they are those of docker-py
        self._lock = threading.Lock()
        self._connections: weakref.WeakSet[HTTPConnection] = weakref.WeakSet()
        super().__init__(**options)

    def get_adapter(self, url: str) -> BaseAdapter:
        """Return what sends requests to a URL, see `requests.Session`."""
        adapter: BaseAdapter = super().get_adapter(url)
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
