"""Hosts that a target may reach: entries of a list, the forms of a host, and public addresses."""

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
"""A name in lower case without a dot at its end, or an address."""

_NOT_PUBLIC_IPV4 = tuple(map(IPv4Network, ("168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24")))
"""Azure's metadata service; protocols, and the metadata of another cloud; relays of 6to4. Python knows all others."""
_PUBLIC_IPV6 = IPv6Network("2000::/3")
_NOT_PUBLIC_IPV6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
"""Special purposes, Teredo among them; documentation; 6to4, which leads to any IPv4 address; documentation."""
_NAT64 = IPv6Network("64:ff9b::/96")
"""Addresses by which networks without IPv4 name public IPv4 addresses."""
_NAME = re.compile(r"(?!.{254})([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"(.*\.)?([0-9]+|0x[0-9a-f]*)")
_FORMS = "a host (example.org), its subdomains (*.example.org), an address or a network, each with :PORT or without"


def is_public(address: Address) -> bool:
    """Whether an address belongs to the public internet, as far as addresses can tell.

    IPv6 addresses that lead to an IPv4 address are not public, whichever it is; but NAT64's are as public as that.
    """
    if isinstance(address, IPv4Address):
        special = address.is_multicast or any(address in network for network in _NOT_PUBLIC_IPV4)
        return address.is_global and not special
    if address in _NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
    return address in _PUBLIC_IPV6 and not any(address in network for network in _NOT_PUBLIC_IPV6)


def parse_host(text: str) -> Host:
    """Return the one form of a host: an address, or a name in lower case without a dot at its end.

    Raises:
        ValueError: It is neither. Numbers that some programs take for an IPv4 address, such as `2130706433`, `0x7f.1`
            and `0177.0.0.1`, are among them.
    """
    if text.startswith("[") and text.endswith("]"):
        return IPv6Address(_without_zone(text[1:-1]))
    if ":" in text:
        return IPv6Address(_without_zone(text))
    name = (text if text.isascii() else text.encode("idna").decode("ascii")).lower().removesuffix(".")
    if _NUMBER.fullmatch(name):
        return IPv4Address(name)
    if not _NAME.fullmatch(name):
        raise ValueError("it is no name of a host")
    return name


def _without_zone(text: str) -> str:
    if "%" in text:
        raise ValueError("an address with a zone is of one machine alone")
    return text


def parse_port(text: str) -> int:
    """Return a port.

    Raises:
        ValueError: It is none.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 65535):
        raise ValueError("it is no port")
    return int(text)


def split_port(text: str) -> tuple[str, str]:
    """Return host and port of `host:port` or `[address]:port`, the port as text, empty if there is none."""
    head, colon, tail = text.rpartition(":")
    if text.startswith("["):
        return (head, tail) if head.endswith("]") else (text, "")
    return (head, tail) if colon and ":" not in head else (text, "")


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a list."""

    text: str
    name: str = ""
    """A host's name; empty for a network."""
    below: bool = False
    """True for the subdomains of `name`, and not `name` itself."""
    network: IPv4Network | IPv6Network | None = None
    port: int | None = None
    """None is any port."""

    @classmethod
    def parse(cls, text: str) -> Entry:
        """Read an entry.

        Raises:
            ValueError: It is none.
        """
        if "/" in text or (text.count(":") > 1 and not text.startswith("[")):
            return cls(text, network=ip_network(_without_zone(text), strict=False))
        host, port = split_port(text)
        number = parse_port(port) if port or text.endswith(":") else None
        below = host.startswith("*.")
        found = parse_host(host.removeprefix("*."))
        if isinstance(found, str):
            return cls(text, found, below, port=number)
        if below:
            raise ValueError("an address has no subdomains")
        return cls(text, network=ip_network(found), port=number)

    def covers(self, host: Host, port: int) -> bool:
        """Whether a host is listed by this entry."""
        if self.port not in (None, port):
            return False
        if not isinstance(host, str):
            return self.network is not None and host in self.network
        return host.endswith(f".{self.name}") if self.below else host == self.name


class RefusedError(Exception):
    """A connection is not allowed. The message says why, and how to allow it."""


class Rules:
    """A list of hosts that a target may reach.

    Args:
        entries: The list, see `checked_network`.

    Raises:
        ValueError: An entry cannot be understood.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        self._entries = tuple(map(_parsed, entries))

    def check(self, host: Host, port: int) -> None:
        """Refuse a host that is not listed.

        Raises:
            RefusedError: It is not.
        """
        if not self._covers(host, port):
            raise RefusedError(
                f"{host}, port {port}, is not in this environment's list of hosts; if it is to be reached, add "
                f"{shown(host, port)} to the network setting, or by set_network"
            )

    def choose(self, host: Host, port: int, found: Sequence[Address]) -> list[Address]:
        """Return those addresses of a listed host that may be connected to: public ones, and listed ones.

        Args:
            host: What the target asked for.
            port: The port.
            found: Its addresses; an address itself, if `host` is one.

        Raises:
            RefusedError: The host is not listed, or none of its addresses may be connected to.
        """
        self.check(host, port)
        chosen = [address for address in found if is_public(address) or self._covers(address, port)]
        if not chosen:
            private = ", ".join(map(str, found[:4]))
            raise RefusedError(
                f"{host} leads to {private}, which is not public; if it is to be reached, add the address to the "
                f"network setting too, as {shown(found[0], port)}"
            )
        return chosen

    def _covers(self, host: Host, port: int) -> bool:
        return any(entry.covers(host, port) for entry in self._entries)


def shown(host: Host, port: int) -> str:
    """Return a host and its port as they stand in a URL."""
    return f"[{host}]:{port}" if isinstance(host, IPv6Address) else f"{host}:{port}"


def _parsed(text: object) -> Entry:
    if not isinstance(text, str):
        raise ValueError(f"{text!r:.100} is no text; give {_FORMS}")  # noqa: TRY004  # pydantic takes it for its own
    try:
        return Entry.parse(text)
    except (ValueError, UnicodeError) as error:
        raise ValueError(f"{text!r:.100} is not understood ({error}); give {_FORMS}, without scheme and path") from None


def service_lists(setting: str, network: Network) -> tuple[list[str], list[str]]:
    """Return IPv4 networks and names of a list, for a service that holds them itself, but no ports.

    Args:
        setting: Its name, for errors.
        network: The setting; without a list both are empty.

    Raises:
        UnsupportedError: An entry is one that the service cannot hold.
    """
    networks, names = [], []
    for entry in map(_parsed, network if isinstance(network, tuple) else ()):
        if entry.port is not None:
            raise UnsupportedError(f"{setting}: the service holds no ports; leave the port of {entry.text!r} out")
        if isinstance(entry.network, IPv6Network):
            raise UnsupportedError(f"{setting}: the service holds IPv4 addresses alone; leave {entry.text!r} out")
        if entry.network:
            networks.append(str(entry.network))
        else:
            names.append(f"*.{entry.name}" if entry.below else entry.name)
    return networks, names
