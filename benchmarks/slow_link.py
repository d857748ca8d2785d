"""A slow link: a TCP port in front of another port, with a delay."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Iterator

PIECE = 64 * 1024


@contextlib.contextmanager
def slow_link(port: int, one_way: float) -> Iterator[int]:
    """Listen in front of a port of this machine, and yield the port to connect to.

    Args:
        port: The target of the link.
        one_way: Seconds of delay in either direction. Pieces do not wait for each other.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    opened: list[socket.socket] = [listener]
    threads: list[threading.Thread] = []

    def start(run: object, *arguments: object) -> None:
        threads.append(threading.Thread(target=run, args=arguments))  # type: ignore[arg-type]
        threads[-1].start()

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", port))
                opened.extend((near, far))
                for source, target in ((near, far), (far, near)):
                    target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    under_way: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
                    start(_receive, source, under_way, one_way)
                    start(_send, under_way, target)

    start(accept)
    try:
        yield int(listener.getsockname()[1])
    finally:
        for each in list(opened):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in list(threads):
            thread.join()


def _receive(source: socket.socket, under_way: queue.SimpleQueue[tuple[float, bytes]], one_way: float) -> None:
    data = b"-"
    while data:
        try:
            data = source.recv(PIECE)
        except OSError:
            data = b""
        under_way.put((time.monotonic() + one_way, data))


def _send(under_way: queue.SimpleQueue[tuple[float, bytes]], target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            due, data = under_way.get()
            time.sleep(max(0.0, due - time.monotonic()))
            if not data:
                target.shutdown(socket.SHUT_WR)
                return
            target.sendall(data)
