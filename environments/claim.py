"""Lock files that claim a name for a process, or for several environments of a process, until the process ends."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

from environments.settings import hermes_home
from environments.starting import current_start

FOLDER = "claims"


class Claim:
    """A locked file under `HERMES_HOME`. The kernel frees the lock when the holder dies, also by SIGKILL.

    Args:
        name: The claimed name; a file name.
        home: The `HERMES_HOME` to lock in; None uses this process's.
    """

    def __init__(self, name: str, home: Path | None = None) -> None:
        self._path: Path = (home or hermes_home()) / FOLDER / name
        self._descriptor = -1

    def acquire(self) -> bool:
        """Acquire the claim unless another process holds the lock. Returns True if this object holds the claim now."""
        if self._descriptor >= 0:
            return True
        self._path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return False
            if self._is_ours(descriptor):
                self._descriptor = descriptor
                return True
            os.close(descriptor)  # the last holder removed the file between our open and our lock

    @property
    def is_held(self) -> bool:
        """True while a process holds it. The look disturbs a concurrent `acquire` only after its holder was killed."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def _is_ours(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(self._path.stat(), os.fstat(descriptor))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Release the claim. Without a claim, does nothing."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                self._path.unlink()
            os.close(self._descriptor)
            self._descriptor = -1


T = TypeVar("T")

_LOOK = 0.1
"""Seconds between checks for a stopped start while another start of the same name runs."""


class _Held:
    """The state of one name in this process."""

    def __init__(self, name: str) -> None:
        self.claim = Claim(name)
        self.target: Any = None
        self.users: set[int] = set()
        self.visitors = 0
        """Number of threads that hold the lock or wait for it."""
        self.lock = threading.Lock()
        """Held while the target is started, joined or ended."""


_lock = threading.Lock()
_all: dict[tuple[Path, str], _Held] = {}


class SharedClaim(Generic[T]):
    """One environment's share of a claim. Environments of this process may share it; other processes may not.

    The first environment starts the claimed target, the last ends it. A share is used by one thread.

    Args:
        name: The claimed name; a file name.
    """

    def __init__(self, name: str) -> None:
        self._key = (hermes_home(), name)

    def join(self, begin: Callable[[T | None], T]) -> T | None:
        """Acquire a share and return the target; None if another process holds the claim.

        Args:
            begin: Receives the target of the other environments, or None, and returns the target to use from now on. No
                other `begin` or `end` of this name runs meanwhile.

        Raises:
            StartStoppedError: The start was stopped while waiting for another start of this name.
        """
        with self._held() as held, self._joining(held) as may_begin:
            if may_begin:
                held.target = begin(held.target)
            return held.target if may_begin else None

    def leave(self, end: Callable[[T], object]) -> None:
        """Release this share, if held. The last share ends the target with `end` and releases the claim.

        Raises the errors of `end`; the claim is released all the same.
        """
        with self._held() as held, self._leaving(held) as is_last:
            if is_last:
                end(held.target)

    # On the loop thread, where a stopped start is cancelled.

    async def join_on_loop(self, begin: Callable[[T | None], Awaitable[T]]) -> T | None:
        """Acquire a share, see `join`."""
        async with self._held_here() as held:
            with self._joining(held) as may_begin:
                if may_begin:
                    held.target = await begin(held.target)
                return held.target if may_begin else None

    async def leave_on_loop(self, end: Callable[[T], Awaitable[object]]) -> None:
        """Release this share, see `leave`."""
        async with self._held_here() as held:
            with self._leaving(held) as is_last:
                if is_last:
                    await end(held.target)

    @contextlib.contextmanager
    def _joining(self, held: _Held) -> Iterator[bool]:
        if not held.claim.acquire():
            yield False
            return
        try:
            yield True
        except BaseException:
            if not held.users:
                held.claim.release()
            raise
        held.users.add(id(self))

    @contextlib.contextmanager
    def _leaving(self, held: _Held) -> Iterator[bool]:
        is_last = held.users == {id(self)}
        held.users.discard(id(self))
        try:
            yield is_last
        finally:
            if is_last:
                held.target = None
                held.claim.release()

    @contextlib.contextmanager
    def _held(self) -> Iterator[_Held]:
        with self._visited() as held:
            while not held.lock.acquire(timeout=_LOOK):
                current_start().check()
            try:
                yield held
            finally:
                held.lock.release()

    @contextlib.asynccontextmanager
    async def _held_here(self) -> AsyncIterator[_Held]:
        with self._visited() as held:
            while not held.lock.acquire(blocking=False):
                await asyncio.sleep(_LOOK)
            try:
                yield held
            finally:
                held.lock.release()

    @contextlib.contextmanager
    def _visited(self) -> Iterator[_Held]:
        with _lock:
            held = _all.setdefault(self._key, _Held(self._key[1]))
            held.visitors += 1
        try:
            yield held
        finally:
            with _lock:
                held.visitors -= 1
                if not held.visitors and not held.users:
                    _all.pop(self._key, None)


def _forget() -> None:
    """Drop the parent's state in a forked child."""
    global _lock  # noqa: PLW0603 - only a thread of the parent could release it
    _lock = threading.Lock()
    _all.clear()


os.register_at_fork(after_in_child=_forget)
