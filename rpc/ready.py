"""Which descriptor has something to read, told to one of several threads that wait together."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from typing import Protocol


class Ready(Protocol):
    """Descriptors that several threads watch."""

    def watch(self, descriptor: int, *, once: bool = True) -> None:
        """Watch a descriptor, until it was told once, or for good. It may be watched again then.

        Raises:
            OSError: It is closed, or there is no room for it.
        """

    def next(self) -> int | None:
        """Wait for a descriptor that can be read, and return it. One thread is told of each; None is to ask again."""

    def close(self) -> None:
        """Free what this holds, once no thread waits."""


class ReadyByEpoll:
    """All threads wait in the kernel, which wakes one of them."""

    def __init__(self) -> None:
        self._epoll = select.epoll()

    def watch(self, descriptor: int, *, once: bool = True) -> None:
        """Watch a descriptor, see `Ready`."""
        events = select.EPOLLIN | (select.EPOLLONESHOT if once else 0)
        try:
            self._epoll.modify(descriptor, events)
        except FileNotFoundError:
            self._epoll.register(descriptor, events)

    def next(self) -> int | None:
        """Wait for a descriptor, see `Ready`."""
        return next((descriptor for descriptor, _ in self._epoll.poll(maxevents=1)), None)

    def close(self) -> None:
        """Free what this holds, see `Ready`."""
        self._epoll.close()


class ReadyByPoll:
    """One thread waits in the kernel, and the others for their turn; for systems without epoll."""

    def __init__(self) -> None:
        self._turn, self._lock = threading.Lock(), threading.Lock()
        self._watched: dict[int, bool] = {}
        """Whether each is watched for one time only."""
        self._bell, self._cord = os.pipe()
        for each in (self._bell, self._cord):
            os.set_blocking(each, False)

    def watch(self, descriptor: int, *, once: bool = True) -> None:
        """Watch a descriptor, see `Ready`."""
        with self._lock:
            self._watched[descriptor] = once
        with contextlib.suppress(BlockingIOError):  # it rings already
            os.write(self._cord, b"x")

    def next(self) -> int | None:
        """Wait for a descriptor, see `Ready`."""
        with self._turn:
            poll = select.poll()
            poll.register(self._bell, select.POLLIN)
            with self._lock:
                for descriptor in self._watched:
                    poll.register(descriptor, select.POLLIN)
            for descriptor, event in poll.poll():
                if descriptor == self._bell:
                    os.read(self._bell, 4096)
                    continue
                with self._lock:
                    if self._watched[descriptor] or event & select.POLLNVAL:
                        del self._watched[descriptor]
                if not event & select.POLLNVAL:
                    return descriptor
            return None

    def close(self) -> None:
        """Free what this holds, see `Ready`."""
        os.close(self._bell)
        os.close(self._cord)


def ready() -> Ready:
    """Return what this system has. Raises OSError if there is no descriptor for it."""
    return ReadyByEpoll() if hasattr(select, "epoll") else ReadyByPoll()
