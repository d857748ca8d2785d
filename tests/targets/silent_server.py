"""A server that accepts every connection and sends no byte, like a firewall or a dead machine."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import NamedTuple


class Silent(NamedTuple):
    """A running silent server."""

    port: int
    reached: threading.Event
    """Set by the first connection."""


@contextlib.contextmanager
def silent_server() -> Iterator[Silent]:
    """Run a silent server on a loopback port."""
    reached = threading.Event()
    taken: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    taken.append(server.accept()[0])
                    reached.set()

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield Silent(server.getsockname()[1], reached)
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in taken:
                connection.close()
