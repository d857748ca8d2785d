"""Targets that run or are kept, on any backend: what is written on them, and how they are listed and removed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from environments.claim import Claim
from environments.errors import TerminalError
from environments.owner import Owner, Standing

State = Literal["running", "stopped", "kept"]
Use = Literal["live", "orphan", "free", "elsewhere"]


@dataclass(frozen=True, slots=True)
class FoundTarget:
    """Something that runs for an environment, or is kept for the next one of its task."""

    kind: str
    """What it is: a `container`, an `instance`, a `sandbox`, an `environment` on a machine, a `snapshot`, `files`."""
    id: str
    """What it is known by where it is."""
    state: State
    """Whether it has processes, has none now, or is files alone."""
    use: Use
    """Whether a process uses it: one of this machine does (`live`), the one that did has ended (`orphan`), it is kept
    and nobody uses it (`free`), or it belongs to another machine, whose processes cannot be seen (`elsewhere`)."""
    remove: Callable[[bool], object] = field(repr=False, compare=False)
    """Removes it, at any later time, with all that is in it. Is told whether to do so while it is `live` or
    `elsewhere`. Raises TerminalError if it is and may not be removed, or cannot be; one that is gone is no error."""
    task: str = ""
    """The task it is for, as far as the backend has it written down; names may be there with `_` for some letters."""
    name: str = ""
    """What else it is called."""
    place: str = ""
    """Where it is, if that is not where the backend has its targets of itself."""
    pid: int | None = None
    """The process here that it belongs to, if that is known and still runs."""
    created: float | None = None
    """When it was made, in seconds since the epoch."""
    size: int | None = None
    """Bytes that it takes, without what it shares with others such as its image."""

    @property
    def is_in_use(self) -> bool:
        """Whether a process uses it, or could without our seeing that."""
        return self.use in ("live", "elsewhere")


def refuse_use(what: str, use: Use, force: bool) -> None:
    """Refuse to remove what is in use.

    Args:
        what: What it is, with its backend.
        use: See `FoundTarget`.
        force: Whether it is to be removed all the same.

    Raises:
        TerminalError: It is in use.
    """
    if force or use not in ("live", "elsewhere"):
        return
    why = "a process still uses it" if use == "live" else "it belongs to another machine, where it may be in use"
    raise TerminalError(f"{what} is not removed, as {why}; end that first, or force it")


@contextlib.contextmanager
def unclaimed(claim: Claim, what: str, force: bool) -> Iterator[None]:
    """Hold the claim on something that is kept while it is removed.

    Args:
        claim: Says whether it is in use.
        what: What it is, with its backend.
        force: Whether it is to be removed all the same.

    Raises:
        TerminalError: It is in use.
    """
    try:
        is_free = claim.take()
    except PermissionError as error:  # another user's
        raise TerminalError(f"{what} is not removed, as nobody can tell whether it is in use: {error}") from error
    try:
        if not is_free:
            refuse_use(what, "live", force)
        yield
    finally:
        claim.release()


def use_of_claim(claim: Claim) -> Use:
    """Say whether something that is kept on this machine is in use, by its claim."""
    try:
        return "live" if claim.is_held else "free"
    except PermissionError:
        return "elsewhere"


def use_of_kept(standing: Standing, claim: Claim, *, runs: bool) -> Use:
    """Say whether something that is kept is in use.

    Args:
        standing: That of the process that had it last.
        claim: Which processes of this machine have on it.
        runs: Whether it has processes.
    """
    if standing == "elsewhere":
        return "elsewhere"
    use = use_of_claim(claim)
    return "orphan" if runs and use == "free" else use


OWNER = "hermes-owner"
"""The process a sandbox belongs to, as `Owner.mark`."""
KEPT = "hermes-kept"
"""On a sandbox whose files are to be kept: what it is found by."""
TASK = "hermes-task"
CREATED = "hermes-created"
"""When it was made, in whole seconds since the epoch, where the service does not say."""
_TASK_LENGTH = 60
"""Characters of a task's name, which is there for people to read."""


def readable(task: str) -> str:
    """Return a task's name in letters, digits, `-`, `_` and `.` alone, and not too long."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in task)[:_TASK_LENGTH]


def sandbox_labels(task: str, key: str | None) -> dict[str, str]:
    """Return the labels of a sandbox of this process.

    Args:
        task: What it is for.
        key: What it is found by if its files are to be kept.
    """
    own = {OWNER: Owner.this_process().mark, TASK: readable(task) or "_"}
    return {**own, KEPT: key} if key else own
