"""Port forwarding as by `ssh -L`: ports of the loopback here lead to ports in reach of an SSH server."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable

import paramiko

from environments.errors import CLEANED_UP, TerminalError, UnsupportedError
from environments.log import logger
from environments.loop import current, in_worker, spawn
from environments.ssh.stream import LINK_ERRORS, WINDOW_STEP, LoopEvent, close_channel, extend_window
from environments.target import Address

MAX_CONNECTIONS = 256
"""Connections at the same time. Further ones wait for a free slot."""
LOOPBACK = "127.0.0.1"
ACCEPT_PAUSE = 0.1
"""Seconds between attempts to accept a connection while too many files are open."""
_PROHIBITED = 1
"""SSH_OPEN_ADMINISTRATIVELY_PROHIBITED, see RFC 4254, 5.1."""
_RECEIVE = 64 * 1024
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of a socket that is reset on close: the peer gets an error instead of an end of file."""

OpenChannel = Callable[[str, int], paramiko.Channel]
"""Opens a channel that the server connects to a port of a host."""

log = logger(__name__)


class Forwarding:
    """The forwarded ports of one environment. Its methods are awaited on the loop.

    Args:
        open_channel: Opens a channel, on a new link after the loss of the last. Called in a worker thread.
    """

    def __init__(self, open_channel: OpenChannel) -> None:
        self._open_channel = open_channel
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self._forwards: dict[tuple[str, int], _Forward] = {}
        self._is_closed = False

    async def address(self, host: str, port: int) -> Address:
        """Return the local address for a port of a host; the same one on each call.

        Raises:
            UnsupportedError: The server has refused this forwarding before.
            TerminalError: No local port is free, or the environment was cleaned up.
        """
        if self._is_closed:
            raise TerminalError(CLEANED_UP)
        forward = self._forwards.get((host, port))
        if forward is None:
            try:
                forward = self._forwards[host, port] = _Forward(self._open_channel, host, port, self._slots)
            except OSError as error:
                raise TerminalError(f"backend 'ssh': no port can be opened here: {error}") from error
        if forward.refusal:
            raise UnsupportedError(
                f"backend 'ssh': the server forwards no connection to port {port} ({forward.refusal}); allow it by "
                "AllowTcpForwarding and PermitOpen of its sshd_config"
            )
        return Address(LOOPBACK, forward.port)

    async def close(self) -> None:
        """End all connections, and close the ports."""
        self._is_closed = True
        forwards, self._forwards = list(self._forwards.values()), {}
        for forward in forwards:
            await forward.close()


class _Forward:
    """One local port, forwarded to a remote port.

    Raises:
        OSError: No local port is free.
    """

    def __init__(self, open_channel: OpenChannel, host: str, port: int, slots: asyncio.Semaphore) -> None:
        self._open_channel = open_channel
        self._host, self._port = host, port
        self._slots = slots
        self._loop = current().loop
        self.refusal = ""
        """The server's reason for a refusal; empty if none was received."""
        self._listener = socket.create_server((LOOPBACK, 0), backlog=MAX_CONNECTIONS)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._connections: set[asyncio.Task[None]] = set()
        self._accepting = spawn(self._accept())

    async def _accept(self) -> None:
        while True:
            await self._slots.acquire()
            try:
                local, _ = await self._loop.sock_accept(self._listener)
            except OSError:
                self._slots.release()
                await asyncio.sleep(ACCEPT_PAUSE)
            else:
                connection = spawn(self._join(local))
                self._connections.add(connection)
                connection.add_done_callback(self._ended)

    def _ended(self, connection: asyncio.Task[None]) -> None:
        self._connections.discard(connection)
        self._slots.release()

    async def _join(self, local: socket.socket) -> None:
        with local:
            channel = await self._open()
            if channel is None:
                local.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                return
            try:
                local.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._send(local, channel))
                    both.create_task(self._receive(local, channel))
            except* (*LINK_ERRORS, TerminalError) as errors:  # one side has disconnected
                log.debug("backend 'ssh': a connection to port %s broke: %s", self._port, errors.exceptions)
            finally:
                spawn(close_channel(channel))

    async def _open(self) -> paramiko.Channel | None:
        """Open a channel; None if the server or the port cannot be reached."""
        try:
            return await in_worker(self._open_channel, self._host, self._port)
        except paramiko.ChannelException as error:
            if error.code == _PROHIBITED and not self.refusal:
                self.refusal = error.text
                log.warning("backend 'ssh': the server forwards no connection to port %s: %s", self._port, error)
        except (*LINK_ERRORS, TerminalError) as error:
            log.warning("backend 'ssh': port %s of the host cannot be reached: %s", self._port, error)
        return None

    async def _send(self, local: socket.socket, channel: paramiko.Channel) -> None:
        while data := await self._loop.sock_recv(local, _RECEIVE):
            await in_worker(channel.sendall, data)
        await in_worker(channel.shutdown_write)

    async def _receive(self, local: socket.socket, channel: paramiko.Channel) -> None:
        arrived = asyncio.Event()
        channel.in_buffer.set_event(LoopEvent(arrived.set))
        unreported = 0
        while True:
            arrived.clear()
            has_ended = channel.closed or channel.eof_received  # read before the last bytes
            if data := channel.in_buffer.empty():
                await self._loop.sock_sendall(local, data)
                unreported += len(data)
            elif has_ended:
                break
            else:
                await arrived.wait()
            if unreported >= WINDOW_STEP and not channel.closed:
                await extend_window(channel, unreported)
                unreported = 0
        local.shutdown(socket.SHUT_RDWR if channel.closed else socket.SHUT_WR)

    async def close(self) -> None:
        """End all connections, and close the port."""
        tasks = [self._accepting, *self._connections]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        self._listener.close()
