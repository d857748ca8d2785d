"""The wire under an SSH connection: a TCP connection, or what a ProxyCommand makes."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from functools import partial

from environments.starting import current_start

CONNECT_TIMEOUT = 20.0
"""Seconds for each of: a TCP connection, the key exchange, the login, and the opening of a channel."""


def connected(host: str, port: int) -> socket.socket:
    """Return a connection, as `socket.create_connection` does, which the start that needs it can break off."""
    start = current_start()
    addresses = start.alone(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), undo=lambda: None)
    error: OSError | None = None
    for family, kind, protocol, _, address in addresses:
        wire = socket.socket(family, kind, protocol)
        try:
            wire.settimeout(CONNECT_TIMEOUT)
            with start.aborting(partial(break_off, wire)):
                wire.connect(address)
        except OSError as failed:
            wire.close()
            error = failed
        except BaseException:
            wire.close()
            raise
        else:
            return wire
    raise error or OSError(f"{host} has no address")


def break_off(wire: socket.socket) -> None:
    """Have whoever waits for something on a wire fail, also for the connection itself."""
    with contextlib.suppress(OSError):
        wire.shutdown(socket.SHUT_RDWR)


def proxied(command: str, opened: contextlib.ExitStack) -> socket.socket:
    """Start a ProxyCommand on a socket pair. paramiko's own class spins for ever when the command has ended."""
    ours, theirs = socket.socketpair()
    try:
        child = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {command}"],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            start_new_session=True,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    opened.callback(child.wait)
    opened.callback(child.terminate)
    return ours
