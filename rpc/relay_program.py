"""The relay: a program in the target that joins scripts' connections to one stream, for Python 3.8 and no library.

It speaks lines. `7 {...}` on its output is a request of connection 7, and the same on its input is the answer to it. It
ends with its input, or at an empty line: then it has read all of it. At a line `-` it also removes its directory.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading

SOCKET_PATH = ""
MAX_MESSAGE_BYTES = 0
TOO_LARGE = ""

_connections: dict[int, socket.socket] = {}
_lock = threading.Lock()


def _say(text: bytes) -> None:
    with _lock:
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()


def _serve(number: int, connection: socket.socket) -> None:
    try:
        with connection, connection.makefile("rb") as reader:
            while True:
                line = reader.readline(MAX_MESSAGE_BYTES + 1)
                if len(line) > MAX_MESSAGE_BYTES:
                    while line and not line.endswith(b"\n"):
                        line = reader.readline(65536)
                    connection.sendall(TOO_LARGE.encode() + b"\n")
                elif line.endswith(b"\n"):
                    _say(b"%d %s" % (number, line))
                else:
                    break
    except OSError:
        pass  # the script died
    finally:
        del _connections[number]


def _accept(listener: socket.socket) -> None:
    number = 0
    while True:
        connection, _ = listener.accept()
        number += 1
        _connections[number] = connection
        threading.Thread(target=_serve, args=(number, connection), daemon=True).start()


def main() -> None:
    """Listen until told to end."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(SOCKET_PATH)
    listener.listen(128)
    threading.Thread(target=_accept, args=(listener,), daemon=True).start()
    for line in iter(sys.stdin.buffer.readline, b""):
        if line in (b"\n", b"-\n"):
            if line != b"\n":
                _remove(os.path.dirname(SOCKET_PATH))  # noqa: PTH120
            break
        number, _, answer = line.partition(b" ")
        connection = _connections.get(int(number))
        if connection:
            with contextlib.suppress(OSError):  # the script died; nobody waits for the answer
                connection.sendall(answer)
    os._exit(0)


def _remove(directory: str) -> None:
    """Remove the directory that the socket is in, if there is no other in it, and say so."""
    try:
        # The script may have put a link in its place, and what that leads to stays as it is.
        place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        for name in os.listdir(place):  # noqa: PTH208
            os.unlink(name, dir_fd=place)
        os.rmdir(directory)  # noqa: PTH106
        os.write(2, b"-")
    except OSError:
        pass
