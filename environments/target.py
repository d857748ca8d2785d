"""What and where a target is, how a person gets into it, and where its ports can be reached."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

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


TargetKind = Literal["machine", "container", "host", "instance", "sandbox"]


@dataclass(frozen=True, slots=True)
class Target:
    """The one place in which an environment runs its commands now. After a loss it may be another one."""

    backend: str
    """The backend's name."""
    kind: TargetKind
    """What it is: this `machine`, a `host` behind a link, a `container`, an `instance` or a `sandbox`."""
    id: str
    """What its engine or service knows it by, in full; for a machine or host its name there."""
    name: str = ""
    """What people call it, where that is something else than the id."""
    host: str = ""
    """Where it is: the host of its engine, the address of its service, or this machine's name; empty if nobody
    knows."""
    enter: tuple[str, ...] = ()
    """The program and its arguments by which a person gets a shell in it from here; empty if there is no such program.
    It holds no secret."""

    def enter_as(self, user: str) -> tuple[str, ...]:
        """Return what `enter` is, for getting in as a user of the target: empty if there is no such program.

        It is known for a container that an engine of this machine runs.

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
    """Return this machine's name."""
    return socket.gethostname()
