"""Allow list of hosts for a target: entries, forms of a host, and public addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import TYPE_CHECKING

from environments.errors import UnsupportedError

if TYPE_CHECKING:
    from environments.network.setting import Network

Address = IPv4Address | IPv6Address
Host = str | Address
"""A name in lower case without a trailing dot, or an address."""

_NOT_PUBLIC_IPV4 = tuple(map(IPv4Network, ("168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24")))
"""Azure's metadata service; protocol assignments, with the metadata of another cloud; 6to4 relays. Python knows all
other special networks."""
_PUBLIC_IPV6 = IPv6Network("2000::/3")
_NOT_PUBLIC_IPV6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
"""Special purposes, among them Teredo; documentation; 6to4, which leads to any IPv4 address; documentation."""
_NAT64 = IPv6Network("64:ff9b::/96")
"""Addresses for public IPv4 addresses in networks without IPv4."""
_NAME = re.compile(r"(?!.{254})([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"(.*\.)?([0-9]+|0x[0-9a-f]*)")
_FORMS = "a host (example.org), its subdomains (*.example.org), an address or a network, each with :PORT or without"


def is_public(address: Address) -> bool:
    """Return True if an address belongs to the public internet.

    An IPv6 address that leads to an IPv4 address is not public, except for NAT64: there, the IPv4 address decides.
    """
    if isinstance(address, IPv4Address):
        special = address.is_multicast or any(address in network for network in _NOT_PUBLIC_IPV4)
        return address.is_global and not special
    if address in _NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
    return address in _PUBLIC_IPV6 and not any(address in network for network in _NOT_PUBLIC_IPV6)


def parse_host(text: str) -> Host:
    """Return the canonical form of a host: an address, or a name in lower case without a trailing dot.

    Raises:
        ValueError: The text is neither. Refused are also numbers that some programs take for an IPv4 address, such as
            `2130706433`, `0x7f.1` and `0177.0.0.1`.
    """
    if text.startswith("[") and text.endswith("]"):
        return IPv6Address(_without_zone(text[1:-1]))
    if ":" in text:
        return IPv6Address(_without_zone(text))
    name = (text if text.isascii() else text.encode("idna").decode("ascii")).lower().removesuffix(".")
    if _NUMBER.fullmatch(name):
        return IPv4Address(name)
    if not _NAME.fullmatch(name):
        raise ValueError("it is not a host name")
    return name


def _without_zone(text: str) -> str:
    if "%" in text:
        raise ValueError("an address with a zone is valid on one machine only")
    return text


def parse_port(text: str) -> int:
    """Return a port.

    Raises:
        ValueError: The text is not a port.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 65535):
        raise ValueError("it is not a port")
    return int(text)


def split_port(text: str) -> tuple[str, str]:
    """Split `host:port` or `[address]:port` into host and port, as text; a missing port is empty."""
    head, colon, tail = text.rpartition(":")
    if text.startswith("["):
        return (head, tail) if head.endswith("]") else (text, "")
    return (head, tail) if colon and ":" not in head else (text, "")


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of an allow list."""

    text: str
    name: str = ""
    """Name of a host; empty for a network."""
    subdomains_only: bool = False
    """True for the subdomains of `name`, without `name`."""
    network: IPv4Network | IPv6Network | None = None
    port: int | None = None
    """None is any port."""

    @classmethod
    def parse(cls, text: str) -> Entry:
        """Parse an entry.

        Raises:
            ValueError: The text is not an entry.
        """
        if "/" in text or (text.count(":") > 1 and not text.startswith("[")):
            return cls(text, network=ip_network(_without_zone(text), strict=False))
        host, port = split_port(text)
        number = parse_port(port) if port or text.endswith(":") else None
        subdomains_only = host.startswith("*.")
        found = parse_host(host.removeprefix("*."))
        if isinstance(found, str):
            return cls(text, found, subdomains_only, port=number)
        if subdomains_only:
            raise ValueError("an address has no subdomains")
        return cls(text, network=ip_network(found), port=number)

    def covers(self, host: Host, port: int) -> bool:
        """Return True if the entry lists a host."""
        if self.port not in (None, port):
            return False
        if not isinstance(host, str):
            return self.network is not None and host in self.network
        return host.endswith(f".{self.name}") if self.subdomains_only else host == self.name


class HostRefusedError(Exception):
    """A connection is not allowed. The message has the reason, and how to allow the connection."""


class AllowList:
    """An allow list of hosts.

    Args:
        entries: The entries, see `parse_network`.

    Raises:
        ValueError: An entry is malformed.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        self._entries = tuple(map(_parse_entry, entries))

    def check(self, host: Host, port: int) -> None:
        """Refuse a host that is not listed.

        Raises:
            HostRefusedError: The host is not listed.
        """
        if not self._covers(host, port):
            raise HostRefusedError(
                f"{host}, port {port}, is not in this environment's list of hosts; to allow it, add "
                f"{host_and_port(host, port)} to the network setting, or by set_network"
            )

    def allowed_addresses(self, host: Host, port: int, found: Sequence[Address]) -> list[Address]:
        """Return the allowed addresses of a listed host: its public addresses, and listed addresses.

        Args:
            host: The requested host.
            port: The port.
            found: Its addresses; an address itself, if `host` is one.

        Raises:
            HostRefusedError: The host is not listed, or has no allowed address.
        """
        self.check(host, port)
        chosen = [address for address in found if is_public(address) or self._covers(address, port)]
        if not chosen:
            private = ", ".join(map(str, found[:4]))
            raise HostRefusedError(
                f"{host} leads to {private}, which is not public; to allow it, add the address to the "
                f"network setting too, as {host_and_port(found[0], port)}"
            )
        return chosen

    def _covers(self, host: Host, port: int) -> bool:
        return any(entry.covers(host, port) for entry in self._entries)


def host_and_port(host: Host, port: int) -> str:
    """Return a host and port in the form of a URL."""
    return f"[{host}]:{port}" if isinstance(host, IPv6Address) else f"{host}:{port}"


def _parse_entry(text: object) -> Entry:
    if not isinstance(text, str):
        raise ValueError(f"{text!r:.100} is not text; give {_FORMS}")  # noqa: TRY004  # pydantic expects ValueError
    try:
        return Entry.parse(text)
    except (ValueError, UnicodeError) as error:
        raise ValueError(f"{text!r:.100} is not understood ({error}); give {_FORMS}, without scheme and path") from None


def service_lists(setting: str, network: Network) -> tuple[list[str], list[str]]:
    """Split an allow list into IPv4 networks and names, for a service that enforces the list without ports.

    Args:
        setting: Name of the setting, for errors.
        network: The setting; without a list, both results are empty.

    Raises:
        UnsupportedError: The service cannot enforce an entry.
    """
    networks, names = [], []
    for entry in map(_parse_entry, network if isinstance(network, tuple) else ()):
        if entry.port is not None:
            raise UnsupportedError(f"{setting}: the service supports no ports; leave out the port of {entry.text!r}")
        if isinstance(entry.network, IPv6Network):
            raise UnsupportedError(f"{setting}: the service supports IPv4 addresses only; leave out {entry.text!r}")
        if entry.network:
            networks.append(str(entry.network))
        else:
            names.append(f"*.{entry.name}" if entry.subdomains_only else entry.name)
    return networks, names
