"""Network connections to public and other allowed addresses, with a deadline.

The check of addresses prevents server-side request forgery (SSRF), also by DNS rebinding.
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TypeVar

import httpcore
import httpx

from environments.network.allow_list import is_public
from hermes_tools.interruption import Deadline

_SocketAddress = tuple[int, tuple[str, int] | tuple[str, int, int, int]]
"""An address family, and an address for `socket.connect`."""
_METADATA_HOSTS = frozenset(
    {"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
)
_CONNECT_SECONDS = 10.0
"""The time-out for each address of a host."""

T = TypeVar("T")


class AddressRefusedError(Exception):
    """The address is not allowed."""


class LookupFailedError(Exception):
    """The name has no address."""


class AddressRules:
    """Checks all addresses of a host before a connection.

    Args:
        allowed: The allow list of hosts and networks that are not public.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._hosts: set[str] = set()
        self._networks: list[IPv4Network | IPv6Network] = []
        for entry in allowed:
            try:
                self._networks.append(ip_network(entry.strip("[]"), strict=False))
            except ValueError:
                self._hosts.add(_normal(entry))

    def check(self, host: str, found: Iterable[_SocketAddress]) -> None:
        """Refuse a host with a forbidden address.

        Args:
            host: The name or address in the URL.
            found: The addresses of the host.

        Raises:
            AddressRefusedError: The host is refused. The message names the setting to allow it.
        """
        if _normal(host) in self._hosts:
            return
        if _normal(host) in _METADATA_HOSTS:
            raise _refusal(host, "is the metadata service of a cloud")
        for _, (text, *_rest) in found:
            address = ip_address(text.partition("%")[0])
            if not is_public(address) and not any(address in network for network in self._networks):
                raise _refusal(host, "has an address that is not public")


class CheckedNetwork(httpcore.NetworkBackend):
    """Resolves a name once, checks the addresses, and connects to a checked address.

    A later change of the name's addresses has no effect. HTTP and TLS above still use the name.

    Args:
        deadline: Ends all operations on the connections.
        rules: The allowed addresses; None allows all.
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
        """Connect to the first answering address of a host. The deadline takes the place of `timeout`.

        Raises:
            AddressRefusedError: An address of the host is not allowed.
            LookupFailedError: The host has no address.
            httpcore.ConnectError: No address answers.
            DeadlineError: The time is up.
            ToolInterruptedError: The caller's scope was cancelled.
        """
        found = _addresses_of(host, port, self._deadline)
        if self._rules:
            self._rules.check(host, found)
        failure = "the host has no address"
        for address in found:
            try:
                return _Stream(_open(address, self._deadline), self._deadline)
            except OSError as error:
                failure = error.strerror or "the host does not answer"
        raise httpcore.ConnectError(f"no connection to {host}, port {port}: {failure}")

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None
    ) -> httpcore.NetworkStream:
        """Raise ConnectError: no URL means a Unix socket."""
        raise httpcore.ConnectError("there is no web page on a Unix socket")


class _Stream(httpcore.NetworkStream):
    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with _mapped_errors(httpcore.ReadError):
            return self._retry_until_ready(lambda: self._sock.recv(max_bytes))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with _mapped_errors(httpcore.WriteError):
            while buffer:
                rest = buffer
                buffer = buffer[self._retry_until_ready(lambda: self._sock.send(rest)) :]  # noqa: B023 - called at once

    def close(self) -> None:
        self._sock.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        # Not `ssl_context`: httpcore changes it at each connection, which is not safe during another's handshake.
        context = _ssl_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        with _mapped_errors(httpcore.ConnectError):
            try:
                self._sock = context.wrap_socket(
                    self._sock, server_hostname=server_hostname, do_handshake_on_connect=False
                )
                self._retry_until_ready(self._sock.do_handshake)
            except BaseException:
                self.close()
                raise
        return self

    def get_extra_info(self, info: str) -> object:
        if info == "ssl_object":
            return self._sock if isinstance(self._sock, ssl.SSLSocket) else None
        if info == "is_readable":
            return bool(_poll(self._sock, select.POLLIN, 0))
        return None

    def _retry_until_ready(self, operation: Callable[[], T]) -> T:
        """Repeat an operation on the socket until the peer is ready, or until the deadline."""
        while True:
            self._sock.settimeout(self._deadline.poll_seconds())
            try:
                return operation()
            except TimeoutError:
                continue


@functools.lru_cache(maxsize=1)
def _ssl_context(cert_file: str | None, cert_dir: str | None) -> ssl.SSLContext:
    """Return the TLS context of all connections. Reading the authorities' certificates takes 40 ms or more.

    Args:
        cert_file: The variable SSL_CERT_FILE, as httpx reads it.
        cert_dir: The variable SSL_CERT_DIR, likewise.
    """
    context = httpx.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _addresses_of(host: str, port: int, deadline: Deadline) -> list[_SocketAddress]:
    """Resolve a name, or read an address in any of its forms."""
    try:
        found = deadline.run_abandonable(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError):
        raise LookupFailedError(f"{host} is not known: there is no such name, or no network") from None
    return [(family, where) for family, _, _, _, where in found if family in (socket.AF_INET, socket.AF_INET6)]  # type: ignore[misc]  # these two families have such addresses


def _normal(host: str) -> str:
    return host.lower().strip("[]").rstrip(".")


def _refusal(host: str, reason: str) -> AddressRefusedError:
    return AddressRefusedError(f"{host} {reason}: not read; if you trust it, name it in web.allow_private")


def _open(address: _SocketAddress, deadline: Deadline) -> socket.socket:
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
    while not _poll(sock, select.POLLOUT, deadline.poll_seconds()):
        if time.monotonic() > give_up:
            raise TimeoutError
    if number := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(number, os.strerror(number))


def _poll(sock: socket.socket, event: int, seconds: float) -> list[tuple[int, int]]:
    poll = select.poll()
    poll.register(sock, event)
    return poll.poll(seconds * 1000)


@contextlib.contextmanager
def _mapped_errors(kind: type[Exception]) -> Iterator[None]:
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise kind(f"the certificate is not valid: {error.verify_message}") from error
    except OSError as error:
        raise kind(error.strerror or type(error).__name__) from error
