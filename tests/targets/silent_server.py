"""A server that takes every connection and never says a word, as a firewall or a dead machine seems to."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import NamedTuple


class Silent(NamedTuple):
    """Such a server, while it runs."""

    port: int
    reached: threading.Event
    """Set when somebody has connected."""


@contextlib.contextmanager
def silent_server() -> Iterator[Silent]:
    """Run one on a port of this machine."""
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
