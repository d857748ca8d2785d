"""The transport for this machine: a Unix socket in the script's directory."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import tempfile
import threading
from typing import Protocol

from environments.loop import current
from environments.owner import Owner
from rpc.call_threads import MAX_THREADS, join_all
from rpc.connection import Connection, Connections
from rpc.dispatcher import Dispatcher

BACKLOG = 64
CLOSE_GRACE_SECONDS = 2.0
LONGEST = 100
"""Bytes of an address that every system takes."""
FREE_REFUSALS = 64
"""Connections without the token that are closed at once; further ones have to wait for their turn."""
REFUSAL_PAUSE = 0.02


class UnixSocketTransport:
    """Takes requests from scripts on this machine.

    A few threads wait for all connections together, and the one that a request wakes runs it: a call costs no change of
    threads, and connections, which a script may open by the thousand, cost none.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._connections = Connections(dispatcher)
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._refused = 0
        self._listener: socket.socket | None = None
        self._poller: Poller | None = None
        self._wake: tuple[int, int] | None = None
        self._own_directory = ""

    def place(self, directory: str) -> str:
        """Return the path that the socket is to have, in a directory for the script's user alone.

        Where an address may not be so long, and there is no way round that, it is in one of its own.

        Raises:
            OSError: That could not be made.
        """
        if len(os.fsencode(directory)) + len("/socket") > LONGEST and not os.path.exists("/proc/self/fd"):  # noqa: PTH110
            directory = self._own_directory = tempfile.mkdtemp(
                prefix=f"hermes-{Owner.this_process().mark}-", dir="/tmp"
            )
        return f"{directory}/socket"

    def start(self, path: str) -> None:
        """Listen. There is no thread before the first connection. Called on the loop.

        Args:
            path: That of the new socket, see `place`.

        Raises:
            OSError: The socket could not be made.
        """
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            _bind(listener, path)
            listener.listen(BACKLOG)
            listener.setblocking(False)
        except OSError:
            listener.close()
            raise
        self._listener = listener
        current().loop.add_reader(listener, self._start_serving)

    def _start_serving(self) -> None:
        """Serve connections from now on. On the loop."""
        listener = self._listener
        assert listener
        current().loop.remove_reader(listener)
        with self._lock:
            if self._closing.is_set():
                return
            try:
                self._poller, self._wake = new_poller(), os.pipe()
                self._poller.watch(self._wake[0], once=False)
                self._poller.watch(listener.fileno())
            except OSError:  # no more descriptors
                self._closing.set()
        if self._closing.is_set():  # the script is told that nobody answers
            self._free()
        else:
            self._add_thread()

    @property
    def has_begun(self) -> bool:
        """Whether there was a connection, so that `close` may have to wait."""
        return self._poller is not None

    def close(self) -> None:
        """Take no more requests, and end every thread and open file of the transport.

        Close the dispatcher first, so that handlers which wait for a command return. One that runs on
        regardless is waited for two seconds at most, and its answer is dropped. Safe to call twice.
        """
        with self._lock:
            if self._closing.is_set():
                return
            self._closing.set()
            threads = list(self._threads)
            if self._wake:
                os.write(self._wake[1], b"x")  # which nobody reads, so that it wakes every thread
        if self._own_directory:
            shutil.rmtree(self._own_directory, ignore_errors=True)
        if not self.has_begun:
            current().soon(self._stop_listening)
            return
        self._connections.shut_down()
        join_all(threads, CLOSE_GRACE_SECONDS)
        if not any(thread.is_alive() for thread in threads):
            self._free()

    def _stop_listening(self) -> None:
        if self._listener:
            current().loop.remove_reader(self._listener)
            self._listener.close()

    def _free(self) -> None:
        """Close every descriptor, once no thread uses them. A handler that never ends is the last to do so."""
        with self._lock:
            descriptors, self._wake = self._wake or (), None
            poller, self._poller = self._poller, None
            listener, self._listener = self._listener, None
        if poller:
            poller.close()
        if listener:
            listener.close()
        for descriptor in descriptors:
            os.close(descriptor)
        self._connections.close_all()

    # Threads: there is always one that waits, until there are enough of them.

    def _add_thread(self) -> None:
        with self._lock:
            if self._closing.is_set() or self._idle or len(self._threads) >= MAX_THREADS:
                return
            thread = threading.Thread(target=self._serve, name="hermes-rpc-call", daemon=True)
            self._idle += 1
            self._threads.append(thread)
        try:
            thread.start()
        except RuntimeError:  # no more threads: those that there are go on
            with self._lock:
                self._idle -= 1
                self._threads.remove(thread)

    def _serve(self) -> None:
        poller, listener = self._poller, self._listener
        assert poller and listener and self._wake
        wake = self._wake[0]
        try:
            while not self._closing.is_set():
                descriptor = poller.next()
                with self._lock:
                    self._idle -= 1
                try:
                    if descriptor == listener.fileno():
                        self._accept(listener, poller)
                    elif descriptor is not None and descriptor != wake:
                        self._read(descriptor, poller)
                finally:
                    with self._lock:
                        self._idle += 1
        finally:
            with self._lock:
                self._idle -= 1
                self._threads.remove(threading.current_thread())
                last = not self._threads
            if last and self._closing.is_set():
                self._free()

    # What they do.

    def _accept(self, listener: socket.socket, poller: Poller) -> None:
        if self._refused > FREE_REFUSALS:
            self._closing.wait(REFUSAL_PAUSE)
        with contextlib.suppress(OSError):  # it has left again, or there is no descriptor for it
            if self._connections.make_room():
                connected, _ = listener.accept()
                connection = self._connections.add(connected)
                poller.watch(connection.descriptor)
        if self._closing.is_set() or self._connections.is_saturated:
            return  # the next one is taken when one of these is free
        with contextlib.suppress(OSError):
            poller.watch(listener.fileno())

    def _read(self, descriptor: int, poller: Poller) -> None:
        connection = self._connections.acquire(descriptor)
        if connection is None:  # it was closed, or another thread is at it, since this was told
            return
        goes_on = False
        try:
            goes_on = self._answer(connection)
        finally:
            waiting = [self._listener.fileno()] if self._listener and self._connections.is_full else []
            self._connections.release(connection, goes_on=goes_on)
            for waits in (*waiting, *self._connections.resume_ready()):
                with contextlib.suppress(OSError, ValueError):  # of what is being closed
                    poller.watch(waits)

    def _answer(self, connection: Connection) -> bool:
        """Answer what has come on a connection, and return whether it goes on."""
        lines = connection.receive()
        if lines is None:
            self._refused += connection.refused
            return False
        if lines:
            self._add_thread()
        for line in lines:
            connection.send(self._dispatcher.dispatch(line))
        return not self._closing.is_set()


def _bind(listener: socket.socket, path: str) -> None:
    if len(os.fsencode(path)) <= LONGEST:
        listener.bind(path)
        return
    directory, _, name = path.rpartition("/")
    place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        listener.bind(f"/proc/self/fd/{place}/{name}")
    finally:
        os.close(place)


class Poller(Protocol):
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


class EpollPoller:
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


class PollPoller:
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


def new_poller() -> Poller:
    """Return what this system has. Raises OSError if there is no descriptor for it."""
    return EpollPoller() if hasattr(select, "epoll") else PollPoller()
