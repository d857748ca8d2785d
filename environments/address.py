"""Where a TCP port of a target can be reached from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

HIGHEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """Where to connect to, from this process. As text it is `host:port`."""

    host: str
    port: int
    url: str = ""
    """Where the port speaks HTTP: the address to ask, without a slash at its end. Where a service gives the port out
    by HTTPS alone, connecting to host and port has to begin with TLS."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What a request to `url` has to carry, as it is how the service knows that it is allowed; mostly nothing."""

    def __post_init__(self) -> None:
        if not self.url:
            object.__setattr__(self, "url", f"http://{self}")

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def checked_port(port: object) -> int:
    """Return the number of a TCP port.

    Raises:
        TypeError: It is no number.
        ValueError: There is no such port.
    """
    if isinstance(port, bool) or not isinstance(port, int):
        raise TypeError(f"port is of type {type(port).__name__}; give a whole number")
    if not 1 <= port <= HIGHEST_PORT:
        raise ValueError(f"port is {port}; give a number from 1 to {HIGHEST_PORT}")
    return port
