"""Targets that run or are kept, on any backend: their labels, their users, and their removal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from environments.claim import Claim
from environments.errors import TerminalError
from environments.owner import UNKNOWN, Owner

State = Literal["running", "stopped", "kept"]
Use = Literal["live", "orphan", "free", "elsewhere"]

_SHOWN, _SHORT = 26, 12
"""Characters of an id that are shown; of a longer one, the first that people know it by."""


@dataclass(frozen=True, slots=True)
class FoundTarget:
    """Something that runs for an environment, or is kept for the next one of its task.

    `str()` of it is its kind, id, task and place, for people.
    """

    kind: str
    """A `container`, an `instance`, a `sandbox`, an `environment` on a machine, a `snapshot`, `files`, or another
    word."""
    id: str
    """Its id where it is."""
    state: State
    """`running` with processes, `stopped` without, `kept` as files alone."""
    delete: Callable[[], object] = field(repr=False, compare=False)
    """Deletes it with all that is in it, at any later time, whether it is in use or not. One that is gone is no error.
    Raises TerminalError if it cannot be deleted."""
    owner: Owner | None = None
    """The process that it was made by, or was last taken up by; None if it is to outlive that."""
    claim: Claim | None = field(default=None, repr=False, compare=False)
    """The claim that a process of this machine has on it while it uses it, if it is kept."""
    set_aside: Callable[[], object] | None = field(default=None, repr=False, compare=False)
    """Ends its processes and keeps its files: the end of an orphan that is kept. None deletes it."""
    task: str = ""
    """The task it is for, as far as the backend has it written down; names may be there with `_` for some letters."""
    name: str = ""
    """Another name of it."""
    place: str = ""
    """Its machine, if that is not where the backend has its targets of itself."""
    created: float | None = None
    """When it was made, in seconds since the epoch."""
    size: int | None = None
    """Bytes that it takes, without what it shares with others such as its image."""
    use: Use = field(init=False)
    """Whether a process uses it: one of this machine does (`live`), the one that did has ended (`orphan`), it is kept
    and none uses it (`free`), or it belongs to another machine, whose processes cannot be seen (`elsewhere`)."""

    def __post_init__(self) -> None:
        try:
            held = self.claim is not None and self.claim.is_held
            use: Use = self._use(held=held)
        except PermissionError:  # the claims of another user
            use = "elsewhere"
        object.__setattr__(self, "use", use)

    def _use(self, *, held: bool) -> Use:
        standing = self.owner.standing if self.owner else None
        if standing == "elsewhere":
            return standing
        if held:
            return "live"
        if self.claim and self.state != "running":
            return "free"
        return standing or ("orphan" if self.claim else "free")

    def __str__(self) -> str:
        of_task = f" of task {self.task}" if self.task else ""
        there = f" on {self.place}" if self.place else ""
        return f"{self.kind} {self.short_id}{of_task}{there}"

    @property
    def short_id(self) -> str:
        """The id, or as much of a long one as people know it by."""
        return self.id if len(self.id) <= _SHOWN else self.id[:_SHORT]

    @property
    def snapshot_name(self) -> str:
        """The name of a snapshot that a user has given it; empty for anything else."""
        is_users = self.kind == "snapshot" and self.owner is None and self.claim is None
        return self.name if is_users else ""

    @property
    def pid(self) -> int | None:
        """The process of this machine that uses it, or whose orphan it is, if that is known."""
        return self.owner.pid if self.owner and self.use == self.owner.standing != "elsewhere" else None

    @property
    def is_in_use(self) -> bool:
        """True if a process uses it, or could without being seen."""
        return self.use in ("live", "elsewhere")

    def remove(self, force: bool = False) -> None:
        """Remove it with all that is in it, at any later time. One that is gone is no error.

        Args:
            force: Whether it is removed also while it is `live` or `elsewhere`.

        Raises:
            TerminalError: It is, and may not be removed; or it cannot be removed.
        """
        with self._claimed() as is_free:
            use = self._use(held=not is_free)
            if not force and use in ("live", "elsewhere"):
                why = "a process still uses it" if use == "live" else _ELSEWHERE
                raise TerminalError(
                    f"{self.kind} {self.short_id} is not removed, as {why}; end that first, or force it"
                )
            self.delete()

    def collect(self) -> bool:
        """Remove an orphan, or set it aside if its files are kept.

        Returns:
            False if a process has taken it up since it was found; nothing is done to it then.

        Raises:
            TerminalError: It cannot be removed.
        """
        with self._claimed() as is_free:
            if is_free:
                (self.set_aside or self.delete)()
        return is_free

    @contextlib.contextmanager
    def _claimed(self) -> Iterator[bool]:
        """Hold the claim, so that no environment takes it up meanwhile. Yields False if another process has it."""
        if self.claim is None:
            yield True
            return
        try:
            is_free = self.claim.acquire()
        except PermissionError as error:  # another user's
            raise TerminalError(
                f"{self.kind} {self.short_id} is not removed, as nobody can tell whether it is in use: {error}"
            ) from error
        try:
            yield is_free
        finally:
            self.claim.release()


_ELSEWHERE = "it belongs to another machine, where it may be in use"

OWNER = "hermes-owner"
"""The process a sandbox belongs to, as `Owner.mark`."""
KEPT = "hermes-kept"
"""On a sandbox whose files are to be kept: the key that it is found by."""
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
        task: The task it is for.
        key: The key it is found by if its files are to be kept.
    """
    own = {OWNER: Owner.this_process().mark, TASK: readable(task) or "_"}
    return {**own, KEPT: key} if key else own


def owner_of(labels: Mapping[str, str]) -> Owner:
    """Return the owner of a sandbox by its labels. One that cannot be read is elsewhere."""
    return Owner.in_name(labels[OWNER]) or UNKNOWN
