"""Which addresses of the network pages may be read from: public ones, and those that the settings name."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from environments.network.rules import is_public
from hermes_tools.web.deadline import Deadline

Network = IPv4Network | IPv6Network
SocketAddress = tuple[int, tuple[str, int] | tuple[str, int, int, int]]
"""A family, and what a socket of it connects to."""

_METADATA_HOSTS = frozenset(
    {"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
)


class AddressRefusedError(Exception):
    """The place may not be connected to."""


class LookupFailedError(Exception):
    """The name has no address."""


class AddressRules:
    """Says whether a host may be connected to, by all addresses that it has.

    Args:
        allowed: Hosts and networks that are not public and may be connected to nevertheless.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._hosts: set[str] = set()
        self._networks: list[Network] = []
        for entry in allowed:
            try:
                self._networks.append(ip_network(entry.strip("[]"), strict=False))
            except ValueError:
                self._hosts.add(_normal(entry))

    def check(self, host: str, found: Iterable[SocketAddress]) -> None:
        """Refuse a host if a single one of its addresses is not to be connected to.

        Args:
            host: The name or address that the URL has.
            found: What it was resolved to.

        Raises:
            AddressRefusedError: It is refused. The message says how to allow it.
        """
        if _normal(host) in self._hosts:
            return
        if _normal(host) in _METADATA_HOSTS:
            raise _refused(host, "is the metadata service of a cloud")
        for _, (text, *_rest) in found:
            address = ip_address(text.partition("%")[0])
            if not is_public(address) and not any(address in network for network in self._networks):
                raise _refused(host, "has an address that is not public")


def addresses_of(host: str, port: int, deadline: Deadline) -> list[SocketAddress]:
    """Resolve a name, or read an address in any of the forms that are understood as one.

    Raises:
        LookupFailedError: There is no such name.
        OutOfTimeError: The time is up.
        ToolInterruptedError: Nobody waits any more.
    """
    try:
        found = deadline.abandoning(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError):
        raise LookupFailedError(f"{host} is not known: there is no such name, or no network") from None
    return [(family, where) for family, _, _, _, where in found if family in (socket.AF_INET, socket.AF_INET6)]  # type: ignore[misc]  # these two families have such addresses


def _normal(host: str) -> str:
    return host.lower().strip("[]").rstrip(".")


def _refused(host: str, why: str) -> AddressRefusedError:
    return AddressRefusedError(f"{host} {why}: not read; if you trust it, name it in web.allow_private")
