"""The target of an environment: kind, name, place, login command, and addresses of ports."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

HIGHEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """An address to connect to from this process. `str()` returns `host:port`."""

    host: str
    port: int
    url: str = ""
    """Base URL of an HTTP server on the port, without a trailing slash. If the service offers HTTPS only, a
    connection to host and port must begin with TLS."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers required for requests to `url`, such as an access token; normally empty."""

    def __post_init__(self) -> None:
        if not self.url:
            object.__setattr__(self, "url", f"http://{self}")

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def checked_port(port: object) -> int:
    """Validate a TCP port.

    Raises:
        TypeError: The value is not a whole number.
        ValueError: The value is out of range.
    """
    if isinstance(port, bool) or not isinstance(port, int):
        raise TypeError(f"port is of type {type(port).__name__}; give a whole number")
    if not 1 <= port <= HIGHEST_PORT:
        raise ValueError(f"port is {port}; give a number from 1 to {HIGHEST_PORT}")
    return port


TargetKind = Literal["machine", "container", "host", "instance", "sandbox"]


@dataclass(frozen=True, slots=True)
class Target:
    """The current target of an environment. A lost target may be replaced by another."""

    backend: str
    """Name of the backend."""
    kind: TargetKind
    """This `machine`, a `host` behind a link, a `container`, an `instance` or a `sandbox`."""
    id: str
    """Full id in the engine or service; for a machine or host its own name."""
    name: str = ""
    """Name for people, if different from the id."""
    host: str = ""
    """Host of the engine, address of the service, or name of this machine; empty if unknown."""
    enter: tuple[str, ...] = ()
    """Program and arguments that open a shell in the target for a person on this machine; empty without such a
    program. Holds no secret."""

    def enter_as(self, user: str) -> tuple[str, ...]:
        """Return `enter` for a user of the target; empty if there is no such program.

        Available for a container of an engine on this machine.

        Args:
            user: A name or a number.
        """
        if self.kind != "container" or self.id not in self.enter:
            return ()
        place = self.enter.index(self.id)
        return (*self.enter[:place], "--user", user, *self.enter[place:])

    def __str__(self) -> str:
        called = self.name or self.id
        what = " ".join(filter(None, (self.kind, called)))
        known_as = f" ({self.id[:12]})" if self.id and self.id != called and self.kind == "container" else ""
        place = f" on {self.host}" if self.host and self.host != called else ""
        way_in = f"; enter it with `{shlex.join(self.enter)}`" if self.enter else ""
        return f"{self.backend}: {what}{known_as}{place}{way_in}"


def this_machine() -> str:
    """Return the name of this machine."""
    return socket.gethostname()
