"""Connections to addresses that were checked, which end with a deadline, however slowly the other side speaks."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import httpcore

from hermes_tools.web.addresses import AddressRules, SocketAddress, addresses_of
from hermes_tools.web.deadline import Deadline

_CONNECT_SECONDS = 10.0
"""How long one of several addresses of a host is tried."""

T = TypeVar("T")


class CheckedNetwork(httpcore.NetworkBackend):
    """Resolves a name once, checks what was found, and connects to just that.

    So a name that changes its address after the check leads nowhere else. What speaks HTTP and TLS above goes on to
    know the name.

    Args:
        deadline: Ends everything on the connections.
        rules: Which addresses are allowed; None are all.
    """

    def __init__(self, deadline: Deadline, rules: AddressRules | None) -> None:
        self._deadline = deadline
        self._rules = rules

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address of a host that answers. The deadline is in place of `timeout`.

        Raises:
            AddressRefusedError: One of its addresses is not allowed.
            LookupFailedError: It has none.
            httpcore.ConnectError: None answers.
            OutOfTimeError: The time is up.
            ToolInterruptedError: Nobody waits any more.
        """
        found = addresses_of(host, port, self._deadline)
        if self._rules:
            self._rules.check(host, found)
        failure = "it has no address"
        for address in found:
            try:
                return _Stream(_connected(address, self._deadline), self._deadline)
            except OSError as error:
                failure = error.strerror or "it does not answer"
        raise httpcore.ConnectError(f"no connection to {host}, port {port}: {failure}")

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None
    ) -> httpcore.NetworkStream:
        """Raise: no URL means one."""
        raise httpcore.ConnectError("there is no web page on a Unix socket")


class _Stream(httpcore.NetworkStream):
    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with _translated(httpcore.ReadError):
            return self._patiently(lambda: self._sock.recv(max_bytes))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with _translated(httpcore.WriteError):
            while buffer:
                rest = buffer
                buffer = buffer[self._patiently(lambda: self._sock.send(rest)) :]  # noqa: B023 - called at once

    def close(self) -> None:
        self._sock.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        with _translated(httpcore.ConnectError):
            try:
                self._sock = ssl_context.wrap_socket(
                    self._sock, server_hostname=server_hostname, do_handshake_on_connect=False
                )
                self._patiently(self._sock.do_handshake)
            except BaseException:
                self.close()
                raise
        return self

    def get_extra_info(self, info: str) -> object:
        if info == "ssl_object":
            return self._sock if isinstance(self._sock, ssl.SSLSocket) else None
        if info == "is_readable":
            return bool(_polled(self._sock, select.POLLIN, 0))
        return None

    def _patiently(self, do: Callable[[], T]) -> T:
        """Repeat what the other side is not ready for, until the deadline."""
        while True:
            self._sock.settimeout(self._deadline.moment())
            try:
                return do()
            except TimeoutError:
                continue


def _connected(address: SocketAddress, deadline: Deadline) -> socket.socket:
    family, where = address
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        _connect(sock, where, deadline)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        sock.close()
        raise
    return sock


def _connect(sock: socket.socket, where: object, deadline: Deadline) -> None:
    give_up = time.monotonic() + _CONNECT_SECONDS
    sock.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        sock.connect(where)  # type: ignore[arg-type]  # an address of its family
    while not _polled(sock, select.POLLOUT, deadline.moment()):
        if time.monotonic() > give_up:
            raise TimeoutError
    if number := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(number, os.strerror(number))


def _polled(sock: socket.socket, event: int, seconds: float) -> list[tuple[int, int]]:
    poll = select.poll()
    poll.register(sock, event)
    return poll.poll(seconds * 1000)


@contextlib.contextmanager
def _translated(kind: type[Exception]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise kind(_said(error)) from error


def _said(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not valid: {error.verify_message}"
    return error.strerror or type(error).__name__
