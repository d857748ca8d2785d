"""What and where the target of an environment is, and how a person gets into it by hand."""

from __future__ import annotations

import shlex
import socket
from dataclasses import dataclass
from typing import Literal

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
