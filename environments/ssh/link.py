"""One connection to an SSH server: handshake, keepalive, and detection of its loss."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import paramiko
from paramiko.common import MSG_CHANNEL_REQUEST, cMSG_CHANNEL_CLOSE
from paramiko.packet import Packetizer

from environments.errors import EnvironmentStartError
from environments.loop import current, done_within, in_worker, spawn
from environments.ssh.config import Route
from environments.ssh.login import CONNECT_TIMEOUT, check_host_keys, failure_message
from environments.ssh.settings import SSHSettings
from environments.ssh.stream import LINK_ERRORS
from environments.starting import current_start

if TYPE_CHECKING:
    from paramiko.transport import _SocketLike

KEEPALIVE = 5.0
"""Seconds of silence before a keepalive request."""
MAX_SILENT = 4
"""Silent intervals in a row until the connection counts as lost."""
CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
"""The fastest ciphers of paramiko, as they need no separate check sum. The others follow in paramiko's order."""

# Errors are raised to the caller. Without this handler, logging would also print paramiko's traces to stderr.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class _CountingPacketizer(Packetizer):
    """Counts messages, and turns `exit-signal` into `exit-status`: paramiko ignores the former."""

    count = 0
    on_first: Callable[[], object] | None = None
    """Called after the first message."""

    def read_message(self) -> tuple[int, paramiko.Message]:
        """Return the kind and the content of the next message."""
        kind, message = super().read_message()
        self.count += 1
        if self.count == 1 and self.on_first:
            self.on_first()
        if kind == MSG_CHANNEL_REQUEST:
            channel, request = message.get_int(), message.get_text()
            if request == "exit-signal":
                message.get_boolean()
                return kind, _exit_status(channel, message.get_text())
            message.rewind()
        return kind, message


def _exit_status(channel: int, name: str) -> paramiko.Message:
    message = paramiko.Message()
    message.add_int(channel)
    message.add_string("exit-status")
    message.add_boolean(False)
    message.add_int(128 + signal.Signals.__members__.get(f"SIG{name}", signal.SIGKILL))
    message.rewind()
    return message


class _Transport(paramiko.Transport):
    """Prefers fast ciphers, and opens channels with a `_ChannelSender`."""

    packetizer: _CountingPacketizer

    def __init__(self, sock: _SocketLike, /, on_first: Callable[[], object] | None = None, **_: object) -> None:
        super().__init__(sock, packetizer_class=_CountingPacketizer)
        self.packetizer.on_first = on_first
        self.channel_timeout = CONNECT_TIMEOUT
        options = self.get_security_options()
        options.ciphers = (*CIPHERS, *(cipher for cipher in options.ciphers if cipher not in CIPHERS))

    def open_channel(self, *args: Any, **options: Any) -> paramiko.Channel:  # noqa: ANN401
        """Open a channel, see `paramiko.Transport`.

        Raises:
            EOFError, OSError, paramiko.SSHException: The server allows no more channels on this connection, or the
                connection is lost (see `Link.loss`): paramiko raises a ChannelException for one of two refusals.
        """
        channel = super().open_channel(*args, **options)
        channel.transport = cast("paramiko.Transport", _ChannelSender(self, channel))
        return channel

    def open_tcp(self, host: str, port: int) -> paramiko.Channel:
        """Open a channel to a port in reach of the server. Raises as `open_channel` does."""
        return self.open_channel("direct-tcpip", (host, port), ("127.0.0.1", 0))


class _ChannelSender:
    """Sends the messages of one channel, in place of the transport: in order, and none after CLOSE.

    A paramiko channel builds a message under its lock and sends it after releasing the lock, so another thread's CLOSE
    may overtake it. An OpenSSH server that receives a message for a closed channel ends the whole connection, or
    delivers the message to a newer channel of the same number.
    """

    def __init__(self, transport: paramiko.Transport, channel: paramiko.Channel) -> None:
        self._transport = transport
        self._lock = threading.Lock()
        self._is_closed = channel.closed

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)

    def _send_user_message(self, message: paramiko.Message) -> None:
        with self._lock:
            if not self._is_closed:
                self._is_closed = message.asbytes()[:1] == cMSG_CHANNEL_CLOSE
                self._transport._send_user_message(message)  # type: ignore[attr-defined]


class Link:
    """A connection to the host of a route, including the connections to its jump hosts.

    The constructor and `close` block: call them in a worker thread.

    Args:
        route: The route.
        own: The settings, with secrets for that host. Jump hosts never receive them.
        on_first_message: Called after the first message of a server, which may be a jump host.

    Raises:
        EnvironmentStartError: The host cannot be reached, refuses the login, or has another key than the known one.
    """

    def __init__(self, route: Route, own: SSHSettings, on_first_message: Callable[[], object] | None = None) -> None:
        self.route = route
        self._on_first_message = on_first_message
        self._silence: str | None = None
        self._socket: socket.socket
        """The socket at the bottom of all these connections."""
        self._pinging: asyncio.Task[None] | None = None
        with contextlib.ExitStack() as stack:
            self.transport = self._connect(route, own, stack)
            self._resources = stack.pop_all()
        self._packets = self.transport.packetizer
        current().soon(current().loop.call_later, KEEPALIVE, self._watch, self._packets.count)

    def loss(self) -> str | None:
        """Return the reason for the loss of the connection; None while it is alive."""
        if self.transport.is_active() and not self._silence:
            return None
        return self._silence or f"the connection to {self.route} dropped"

    async def ping(self, seconds: float) -> bool:
        """Ping the server. Returns True if a message arrives within so many seconds."""
        count = self._packets.count
        await done_within(self._ping_task(), seconds)
        return self._packets.count != count

    def abandon(self, seconds: float) -> None:
        """Close the connection after so many seconds of silence. Called on the loop."""
        self._silence = f"{self.route} has not answered for {seconds:.0f} s"
        spawn(in_worker(self.transport.close))

    def close(self) -> None:
        """Close the connection and all its channels."""
        self._resources.close()

    def _connect(self, route: Route, own: SSHSettings, stack: contextlib.ExitStack) -> _Transport:
        client = paramiko.SSHClient()
        name, port = route.known_as
        try:
            check_host_keys(client, route)
            wire = self._wire(route, own, stack)
            stack.callback(_disconnect, client)
            with self._abortable():
                client.connect(
                    name,
                    port,
                    route.user,
                    own.password.get_secret_value() if own.password else None,
                    key_filename=[str(path) for path in route.key_files],  # type: ignore[arg-type]  # a list may be given
                    passphrase=own.passphrase.get_secret_value() if own.passphrase else None,
                    allow_agent=route.other_keys,
                    look_for_keys=not route.key_files,
                    sock=wire,
                    timeout=CONNECT_TIMEOUT,
                    banner_timeout=CONNECT_TIMEOUT,
                    auth_timeout=CONNECT_TIMEOUT,
                    transport_factory=partial(_Transport, on_first=self._on_first_message),
                )
        except (*LINK_ERRORS, ValueError) as error:
            tried = client.get_transport()
            after_key_exchange = tried is not None and tried.initial_kex_done
            message = failure_message(route, own, error, after_key_exchange=after_key_exchange)
            raise EnvironmentStartError(message) from error
        transport = client.get_transport()
        assert isinstance(transport, _Transport)
        return transport

    def _abortable(self) -> AbstractContextManager[None]:
        """Return a context that makes each blocking wait for a connection fail when the start is stopped."""
        return current_start().aborting(partial(_shut_down, self._socket))

    def _wire(self, route: Route, own: SSHSettings, stack: contextlib.ExitStack) -> socket.socket | paramiko.Channel:
        if route.via:
            nearer = self._connect(route.via, replace(own, password=None, passphrase=None), stack)
            with self._abortable():
                channel = nearer.open_tcp(route.host, route.port)
            stack.callback(channel.close)
            return channel
        if route.proxy_command:
            self._socket = _proxy_socket(route.proxy_command, stack)
            return self._socket
        self._socket = wire = _connect_tcp(route.host, route.port, stack)
        # Without TCP_NODELAY, a small message waits for the acknowledgement of the last: 47 ms a command, not 5.
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return wire

    def _watch(self, count: int, silent: int = 0) -> None:
        """Send keepalive requests, and close the connection after too much silence. Called on the loop.

        Args:
            count: Number of messages at the last check.
            silent: Number of checks in a row without a new message.
        """
        if not self.transport.is_active():
            return
        silent = silent + 1 if count == self._packets.count else 0
        if silent > MAX_SILENT:
            self.abandon(silent * KEEPALIVE)
            return
        if silent:
            self._ping_task()
        current().loop.call_later(KEEPALIVE, self._watch, self._packets.count, silent)

    def _ping_task(self) -> asyncio.Task[None]:
        """Return the running ping task. Ends with the server's answer, which is always sent, or with the connection."""
        if self._pinging is None or self._pinging.done():
            self._pinging = spawn(in_worker(self._ping))
        return self._pinging

    def _ping(self) -> None:
        with contextlib.suppress(*LINK_ERRORS):
            self.transport.global_request("keepalive@openssh.com", wait=True)


def _disconnect(client: paramiko.SSHClient) -> None:
    transport = client.get_transport()
    client.close()
    if transport:
        transport.join()  # its thread ends shortly after `close`


def _connect_tcp(host: str, port: int, stack: contextlib.ExitStack) -> socket.socket:
    """Connect as `socket.create_connection` does; the start can abort it."""
    start = current_start()
    addresses = start.run_detachable(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), undo=lambda: None)
    failed: OSError | None = None
    for family, kind, protocol, _, address in addresses:
        wire = socket.socket(family, kind, protocol)
        stack.callback(wire.close)
        wire.settimeout(CONNECT_TIMEOUT)
        try:
            with start.aborting(partial(_shut_down, wire)):
                wire.connect(address)
        except OSError as error:
            wire.close()
            failed = error
        else:
            return wire
    raise failed or OSError(f"{host} has no address")


def _shut_down(wire: socket.socket) -> None:
    """Make each wait on a socket fail, including a connect."""
    with contextlib.suppress(OSError):
        wire.shutdown(socket.SHUT_RDWR)


def _proxy_socket(command: str, stack: contextlib.ExitStack) -> socket.socket:
    """Start a ProxyCommand on a socket pair. paramiko's own class spins for ever after the end of the command."""
    ours, theirs = socket.socketpair()
    stack.callback(ours.close)
    with theirs:
        child = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {command}"],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            start_new_session=True,
        )
    stack.callback(child.wait)
    stack.callback(child.terminate)
    stack.callback(ours.close)  # called first, as a command may end only at its end of input
    return ours
