"""What a pool has and does at one moment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PoolStats:
    """The numbers of a pool. `idle + lent + starting + ending` is never above its `max`."""

    idle: int
    """Environments that are ready and lent to nobody."""
    lent: int
    """Environments that are in use."""
    starting: int
    """Environments that are being started, or made anew behind a use."""
    ending: int
    """Environments that are being removed."""
    waiting: int
    """Borrowers that wait for one."""
    started: int
    """Environments that have been started since the pool was made."""
    failed: int
    """Starts that have failed since."""
