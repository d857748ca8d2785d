"""Ports that an SSH server can reach, on ports of this machine's loopback: what `ssh -L` does."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

import paramiko

from environments.errors import CLEANED_UP, TerminalError, UnsupportedError
from environments.log import logger
from environments.ssh.stream import LINK_ERRORS, WINDOW
from environments.target import Address

MOST_CONNECTIONS = 256
"""How many connections are joined at once. What is more waits until one has ended."""
LOOPBACK = "127.0.0.1"
_PROHIBITED = 1
"""SSH_OPEN_ADMINISTRATIVELY_PROHIBITED, see RFC 4254, 5.1."""
_RECEIVE = 64 * 1024
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of a socket whose other side is to see an error, and not the end of what was sent."""

OpenChannel = Callable[[str, int], paramiko.Channel]
"""Opens a channel that the server joins to a port of a host."""

log = logger(__name__)


class Forwarding:
    """All ports of one environment that are reached through its server.

    A connection has two threads, which end with it; all of them are gone when `close` returns.

    Args:
        open_channel: Opens a channel, on a new link if the last one dropped. It raises as `Link` and its opening do.
    """

    def __init__(self, open_channel: OpenChannel) -> None:
        self._open_channel = open_channel
        self._lock = threading.Lock()
        self._slots = threading.Semaphore(MOST_CONNECTIONS)
        self._forwards: dict[tuple[str, int], _Forward] = {}
        self._closed = False

    def address(self, host: str, port: int) -> Address:
        """Return where a port of a host, as the server knows it, can be reached here. It is always the same.

        Raises:
            UnsupportedError: The server has refused that before.
            TerminalError: There are no ports here, or the environment was cleaned up.
        """
        with self._lock:
            if self._closed:
                raise TerminalError(CLEANED_UP)
            forward = self._forwards.get((host, port))
            if forward is None:
                try:
                    forward = self._forwards[host, port] = _Forward(self._open_channel, host, port, self._slots)
                except OSError as error:
                    raise TerminalError(f"backend 'ssh': no port can be opened here: {error}") from error
        if forward.refusal:
            raise UnsupportedError(
                f"backend 'ssh': the server forwards no connection to port {port} ({forward.refusal}); have "
                "AllowTcpForwarding and PermitOpen of its sshd_config allow it"
            )
        return Address(LOOPBACK, forward.port)

    def close(self) -> None:
        """End all connections, and give the ports back."""
        with self._lock:
            self._closed = True
            forwards, self._forwards = list(self._forwards.values()), {}
        for forward in forwards:
            forward.close()


class _Forward:
    """One port here that leads to one there.

    Raises:
        OSError: There is none to be had.
    """

    def __init__(self, open_channel: OpenChannel, host: str, port: int, slots: threading.Semaphore) -> None:
        self._open_channel = open_channel
        self._there = host, port
        self._slots = slots
        self._lock = threading.Lock()
        self._connections: set[_Connection] = set()
        self._closing = threading.Event()
        self.refusal = ""
        """Why the server allows no connection there, once it has said so."""
        self._listener = socket.create_server((LOOPBACK, 0), backlog=MOST_CONNECTIONS)
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, name="hermes-ssh-forward", daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            self._slots.acquire()
            try:
                near, _ = self._listener.accept()
            except OSError:
                self._slots.release()
                if self._closing.wait(0.1):  # else too many files are open, for a moment
                    return
                continue
            if not self._joined(near):
                near.close()
                self._slots.release()

    def _joined(self, near: socket.socket) -> bool:
        with self._lock:
            if self._closing.is_set():
                return False
            try:
                self._connections.add(_Connection(near, self._open, self._ended))
            except RuntimeError as error:
                log.warning("backend 'ssh': a connection to port %s has no thread: %s", self._there[1], error)
                return False
            return True

    def _open(self) -> paramiko.Channel | None:
        """Open a channel; None if there is nobody to talk to."""
        try:
            return self._open_channel(*self._there)
        except paramiko.ChannelException as error:
            if error.code == _PROHIBITED and not self.refusal:
                self.refusal = error.text
                log.warning("backend 'ssh': the server forwards no connection to port %s: %s", self._there[1], error)
        except (*LINK_ERRORS, TerminalError) as error:
            log.warning("backend 'ssh': port %s of the host cannot be reached: %s", self._there[1], error)
        return None

    def _ended(self, connection: _Connection) -> None:
        with self._lock:
            self._connections.discard(connection)
        self._slots.release()

    def close(self) -> None:
        """End all connections, and give the port back."""
        with self._lock:
            self._closing.set()
            connections = list(self._connections)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept
        for connection in connections:
            connection.break_off()
        for connection in connections:
            connection.join()
        self._slots.release()  # for a thread that waits for one
        self._thread.join()
        self._slots.acquire()
        self._listener.close()


class _Connection:
    """One connection here, joined to a channel. Each side may end what it sends, and go on to receive."""

    def __init__(
        self,
        near: socket.socket,
        open_channel: Callable[[], paramiko.Channel | None],
        ended: Callable[[_Connection], None],
    ) -> None:
        self._near = near
        self._open_channel = open_channel
        self._ended = ended
        self._channel: paramiko.Channel | None = None
        self._broken = False
        self._thread = threading.Thread(target=self._run, name="hermes-ssh-forwarded", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._channel = channel = self._open_channel()
            if channel is None or self._broken:
                self._near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            else:
                self._pass_on(channel)
        except (OSError, RuntimeError) as error:  # the connection here is gone, or there is no thread to be had
            log.warning("backend 'ssh': a connection was not joined: %s", error)
        finally:
            if self._channel:
                self._channel.close()
            self._near.close()
            self._ended(self)

    def _pass_on(self, channel: paramiko.Channel) -> None:
        self._near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=self._receive, args=(channel,), name="hermes-ssh-forwarded", daemon=True)
        back.start()
        try:
            while data := self._near.recv(_RECEIVE):
                channel.sendall(data)
            channel.shutdown_write()
        except LINK_ERRORS:  # the connection here was reset, or the channel is closed
            channel.close()
        back.join()

    def _receive(self, channel: paramiko.Channel) -> None:
        try:
            while data := channel.recv(WINDOW):
                self._near.sendall(data)
            self._near.shutdown(socket.SHUT_RDWR if channel.closed else socket.SHUT_WR)
        except LINK_ERRORS:
            channel.close()
            with contextlib.suppress(OSError):
                self._near.shutdown(socket.SHUT_RDWR)

    def break_off(self) -> None:
        """Have both directions end."""
        self._broken = True
        with contextlib.suppress(OSError):
            self._near.shutdown(socket.SHUT_RDWR)
        if channel := self._channel:
            channel.close()

    def join(self) -> None:
        """Wait for the end."""
        self._thread.join()
