"""Running and stored targets of any backend: owner, use, labels, removal. An orphan has a killed owner."""

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
"""Characters of an id for display: the limit, and the length of a shortened id."""


@dataclass(frozen=True, slots=True)
class FoundTarget:
    """A target that runs for an environment, or is stored for the next environment of its task.

    `str()` returns kind, id, task and place for people.
    """

    kind: str
    """`container`, `instance`, `sandbox`, `environment` (on a machine), `snapshot`, `files`, or another word."""
    id: str
    """Id in its engine or service."""
    state: State
    """`running` with processes, `stopped` without, `kept` as files only."""
    delete: Callable[[], object] = field(repr=False, compare=False)
    """Deletes the target with its contents, in use or not. Deleting a missing target is no error. Raises
    TerminalError on failure."""
    owner: Owner | None = None
    """The process that created or last used the target; None for a target that outlives its process."""
    claim: Claim | None = field(default=None, repr=False, compare=False)
    """The claim of a stored target, held by the process of this machine that uses the target."""
    set_aside: Callable[[], object] | None = field(default=None, repr=False, compare=False)
    """Ends the processes of a stored orphan and keeps its files. None deletes the target."""
    task: str = ""
    """Task of the target, if recorded by the backend. Some letters may be replaced by `_`."""
    name: str = ""
    """Another name of the target."""
    place: str = ""
    """Machine of the target, if not the backend's default place."""
    created: float | None = None
    """Creation time, in seconds since the epoch."""
    size: int | None = None
    """Disk usage in bytes, without shared parts such as the image."""
    use: Use = field(init=False)
    """`live` if a process of this machine uses the target; `orphan` if that process has ended; `free` if stored and
    unused; `elsewhere` if the owner is on another machine, where processes are not visible."""

    def __post_init__(self) -> None:
        try:
            held = self.claim is not None and self.claim.is_held
            use: Use = self._use(held=held)
        except PermissionError:  # claims of another user
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
        """The id, or its beginning if the id is long."""
        return self.id if len(self.id) <= _SHOWN else self.id[:_SHORT]

    @property
    def snapshot_name(self) -> str:
        """The user's name of a snapshot; empty for other targets."""
        is_users = self.kind == "snapshot" and self.owner is None and self.claim is None
        return self.name if is_users else ""

    @property
    def pid(self) -> int | None:
        """The process of this machine that uses the target or left the orphan, if known."""
        return self.owner.pid if self.owner and self.use == self.owner.standing != "elsewhere" else None

    @property
    def is_in_use(self) -> bool:
        """True if a process uses the target, or may use it on another machine."""
        return self.use in ("live", "elsewhere")

    def remove(self, force: bool = False) -> None:
        """Remove the target with its contents. Removing a missing target is no error.

        Args:
            force: True to remove a target that is `live` or `elsewhere`.

        Raises:
            TerminalError: The target is in use and `force` is False, or the removal failed.
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
        """Remove an orphan, or only end its processes if the files are stored.

        Returns:
            False if a process has acquired the target since the listing; the target is then left alone.

        Raises:
            TerminalError: The removal failed.
        """
        with self._claimed() as is_free:
            if is_free:
                (self.set_aside or self.delete)()
        return is_free

    @contextlib.contextmanager
    def _claimed(self) -> Iterator[bool]:
        """Hold the claim during the removal. Yields False if another process holds the claim."""
        if self.claim is None:
            yield True
            return
        try:
            is_free = self.claim.acquire()
        except PermissionError as error:  # claim of another user
            raise TerminalError(
                f"{self.kind} {self.short_id} is not removed, as its claim cannot be read: {error}"
            ) from error
        try:
            yield is_free
        finally:
            self.claim.release()


_ELSEWHERE = "it belongs to another machine, where it may be in use"

OWNER = "hermes-owner"
"""Label: the process that owns a sandbox, as `Owner.mark`."""
KEPT = "hermes-kept"
"""Label of a sandbox with stored files: the key to find the sandbox by."""
TASK = "hermes-task"
CREATED = "hermes-created"
"""Label: creation time in whole seconds since the epoch, for services without one."""
_TASK_LENGTH = 60
"""Maximum characters of a task's name in a label."""


def readable(task: str) -> str:
    """Return a task's name reduced to letters, digits, `-`, `_` and `.`, and shortened."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in task)[:_TASK_LENGTH]


def sandbox_labels(task: str, key: str | None) -> dict[str, str]:
    """Return the labels of a sandbox of this process.

    Args:
        task: The task of the sandbox.
        key: The key to find the sandbox by; None if its files are not stored.
    """
    own = {OWNER: Owner.this_process().mark, TASK: readable(task) or "_"}
    return {**own, KEPT: key} if key else own


def owner_of(labels: Mapping[str, str]) -> Owner:
    """Return the owner of a sandbox by its labels. An unreadable owner counts as elsewhere."""
    return Owner.in_name(labels[OWNER]) or UNKNOWN
