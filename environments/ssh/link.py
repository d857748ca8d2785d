"""One authenticated connection to an SSH server, which is noticed when it falls silent."""

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
from environments.ssh.login import CONNECT_TIMEOUT, check_host_keys, explained
from environments.ssh.settings import SSHSettings
from environments.ssh.stream import LINK_ERRORS
from environments.starting import current_start

if TYPE_CHECKING:
    from paramiko.transport import _SocketLike

KEEPALIVE = 5.0
"""Seconds of silence after which the server is asked for a sign of life."""
MISSED = 4
"""Intervals of silence in a row after which it counts as lost."""
CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
"""The fastest of paramiko's, as they need no separate check sum. The others follow in its own order."""

# Errors come to the caller as exceptions; without this, logging prints paramiko's traces to stderr as well.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class _CountingPacketizer(Packetizer):
    """Counts messages, and tells the channel when a signal ended its process, of which paramiko takes no note."""

    count = 0
    on_first: Callable[[], object] | None = None
    """Called behind the first message."""

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
    """Prefers fast ciphers, and opens channels on which nothing follows what closes them, see `_ChannelSender`."""

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
            EOFError, OSError, paramiko.SSHException: The server allows no more of them on this connection, or it is
                gone, which `Link.loss` tells: of two refusals at once, paramiko raises a ChannelException for one.
        """
        channel = super().open_channel(*args, **options)
        channel.transport = cast("paramiko.Transport", _ChannelSender(self, channel))
        return channel

    def open_tcp(self, host: str, port: int) -> paramiko.Channel:
        """Open a channel to a port of a host, as the server knows it. Raises as `open_channel` does."""
        return self.open_channel("direct-tcpip", (host, port), ("127.0.0.1", 0))


class _ChannelSender:
    """Sends the messages of one channel, in place of the transport: one after another, and none behind CLOSE.

    A paramiko channel puts a message together under its lock and sends it behind that, so that another thread's CLOSE
    may overtake it. An OpenSSH server that gets a message for a closed channel ends the whole connection, or gives it
    to another channel that has that number meanwhile.
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
    """A connection to the host of a route, with those that lead to it. It is made and closed in a worker thread.

    Args:
        route: Where to connect to.
        own: The settings, with the secrets for that host. Hosts on the way there never see them.
        on_first_message: Called when a server has said something. It may be one on the way.

    Raises:
        EnvironmentStartError: It cannot be reached, refuses the login, or shows another key than the known one.
    """

    def __init__(self, route: Route, own: SSHSettings, on_first_message: Callable[[], object] | None = None) -> None:
        self.route = route
        self._on_first_message = on_first_message
        self._silence: str | None = None
        self._socket: socket.socket
        """The socket beneath all of the connections."""
        self._pinging: asyncio.Task[None] | None = None
        with contextlib.ExitStack() as opened:
            self.transport = self._connect(route, own, opened)
            self._opened = opened.pop_all()
        self._packets = self.transport.packetizer
        current().soon(current().loop.call_later, KEEPALIVE, self._watch, self._packets.count)

    def loss(self) -> str | None:
        """Return why the connection is gone, or None while it is there."""
        if self.transport.is_active() and not self._silence:
            return None
        return self._silence or f"the connection to {self.route} dropped"

    async def answers(self, seconds: float) -> bool:
        """Ask the server for a sign of life, and return whether it gives one within so many seconds."""
        count = self._packets.count
        await done_within(self._asked(), seconds)
        return self._packets.count != count

    def give_up(self, seconds: float) -> None:
        """Close the connection, as the server has given no sign of life for so many seconds. On the loop."""
        self._silence = f"{self.route} has not answered for {seconds:.0f} s"
        spawn(in_worker(self.transport.close))

    def close(self) -> None:
        """Close the connection and all its channels."""
        self._opened.close()

    def _connect(self, route: Route, own: SSHSettings, opened: contextlib.ExitStack) -> _Transport:
        client = paramiko.SSHClient()
        name, port = route.known_as
        try:
            check_host_keys(client, route)
            wire = self._wire(route, own, opened)
            opened.callback(_disconnect, client)
            with self._breakable():
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
            had_keys = tried is not None and tried.initial_kex_done
            raise EnvironmentStartError(explained(route, own, error, had_keys=had_keys)) from error
        transport = client.get_transport()
        assert isinstance(transport, _Transport)
        return transport

    def _breakable(self) -> AbstractContextManager[None]:
        """Return a context in which each wait for a connection fails when the start is stopped."""
        return current_start().aborting(partial(_break_off, self._socket))

    def _wire(self, route: Route, own: SSHSettings, opened: contextlib.ExitStack) -> socket.socket | paramiko.Channel:
        if route.via:
            nearer = self._connect(route.via, replace(own, password=None, passphrase=None), opened)
            with self._breakable():
                channel = nearer.open_tcp(route.host, route.port)
            opened.callback(channel.close)
            return channel
        if route.proxy_command:
            self._socket = _proxied(route.proxy_command, opened)
            return self._socket
        self._socket = wire = _connected(route.host, route.port, opened)
        # Without it each small message waits for the answer to the one before: 47 ms a command become 5.
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return wire

    def _watch(self, count: int, silent: int = 0) -> None:
        """Close the connection once the server has given no sign of life for too long. On the loop.

        Args:
            count: The number of messages that had come at the last look.
            silent: The number of looks in a row at which none had come.
        """
        if not self.transport.is_active():
            return
        silent = silent + 1 if count == self._packets.count else 0
        if silent > MISSED:
            self.give_up(silent * KEEPALIVE)
            return
        if silent:
            self._asked()
        current().loop.call_later(KEEPALIVE, self._watch, self._packets.count, silent)

    def _asked(self) -> asyncio.Task[None]:
        """Return the task that waits for an answer, which the server gives in any case, or for the connection's end."""
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
        transport.join()  # its thread ends a moment after it is told to


def _connected(host: str, port: int, opened: contextlib.ExitStack) -> socket.socket:
    """Return a connection, as `socket.create_connection` does, that the start which needs it can break off."""
    start = current_start()
    addresses = start.run_detachable(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), undo=lambda: None)
    failed: OSError | None = None
    for family, kind, protocol, _, address in addresses:
        wire = socket.socket(family, kind, protocol)
        opened.callback(wire.close)
        wire.settimeout(CONNECT_TIMEOUT)
        try:
            with start.aborting(partial(_break_off, wire)):
                wire.connect(address)
        except OSError as error:
            wire.close()
            failed = error
        else:
            return wire
    raise failed or OSError(f"{host} has no address")


def _break_off(wire: socket.socket) -> None:
    """Have each wait on a wire fail, also that for the connection itself."""
    with contextlib.suppress(OSError):
        wire.shutdown(socket.SHUT_RDWR)


def _proxied(command: str, opened: contextlib.ExitStack) -> socket.socket:
    """Start a ProxyCommand on a socket pair. paramiko's own class spins for ever when the command has ended."""
    ours, theirs = socket.socketpair()
    opened.callback(ours.close)
    with theirs:
        child = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {command}"],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            start_new_session=True,
        )
    opened.callback(child.wait)
    opened.callback(child.terminate)
    opened.callback(ours.close)  # before that, as a command may end with its input alone
    return ours
