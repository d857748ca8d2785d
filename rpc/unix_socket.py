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
"""Bytes of a socket address that every system accepts."""
FREE_REFUSALS = 64
"""Connections without the token that are closed at once; later ones wait `REFUSAL_PAUSE` first."""
REFUSAL_PAUSE = 0.02


class UnixSocketTransport:
    """Receives requests from scripts on this machine.

    A few threads poll all connections together, and the thread woken by a request runs the handler. So a call needs no
    switch of threads, and idle connections, thousands at worst, need no thread.
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
        self._poller: SharedPoller | None = None
        self._wake: tuple[int, int] | None = None
        self._own_directory = ""

    def place(self, directory: str) -> str:
        """Return a path for the socket, in a directory for the script's user alone.

        If the address would be too long, and /proc/self/fd is missing, the socket gets a directory in /tmp.

        Raises:
            OSError: The directory could not be created.
        """
        if len(os.fsencode(directory)) + len("/socket") > LONGEST and not os.path.exists("/proc/self/fd"):  # noqa: PTH110
            directory = self._own_directory = tempfile.mkdtemp(
                prefix=f"hermes-{Owner.this_process().mark}-", dir="/tmp"
            )
        return f"{directory}/socket"

    def start(self, path: str) -> None:
        """Listen. The first connection starts the first thread. Called on the loop.

        Args:
            path: Path of the new socket; see `place`.

        Raises:
            OSError: The socket could not be created.
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
        """Start to serve connections. On the loop."""
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
        if self._closing.is_set():  # the closed socket tells the script that the tools are gone
            self._free()
        else:
            self._add_thread()

    @property
    def has_begun(self) -> bool:
        """True once a connection came, so that `close` may wait."""
        return self._poller is not None

    def close(self) -> None:
        """Stop receiving requests, and end every thread and open file of the transport.

        Close the dispatcher first, so that handlers waiting for a command return. A running handler is waited
        for at most two seconds, and its answer is dropped. Safe to call twice.
        """
        with self._lock:
            if self._closing.is_set():
                return
            self._closing.set()
            threads = list(self._threads)
            if self._wake:
                os.write(self._wake[1], b"x")  # never read, so that every thread wakes
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
        """Close all descriptors. The last thread calls this, perhaps after a slow handler."""
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

    # Threads: one always polls, until `MAX_THREADS` run.

    def _add_thread(self) -> None:
        with self._lock:
            if self._closing.is_set() or self._idle or len(self._threads) >= MAX_THREADS:
                return
            thread = threading.Thread(target=self._serve, name="hermes-rpc-call", daemon=True)
            self._idle += 1
            self._threads.append(thread)
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads; those running go on
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

    # Work of the threads.

    def _accept(self, listener: socket.socket, poller: SharedPoller) -> None:
        if self._refused > FREE_REFUSALS:
            self._closing.wait(REFUSAL_PAUSE)
        with contextlib.suppress(OSError):  # the client has left again, or no descriptor is free
            if self._connections.make_room():
                connected, _ = listener.accept()
                connection = self._connections.add(connected)
                poller.watch(connection.descriptor)
        if self._closing.is_set() or self._connections.is_saturated:
            return  # the next one is accepted when a connection is free
        with contextlib.suppress(OSError):
            poller.watch(listener.fileno())

    def _read(self, descriptor: int, poller: SharedPoller) -> None:
        connection = self._connections.acquire(descriptor)
        if connection is None:  # closed or handled by another thread since the event
            return
        goes_on = False
        try:
            goes_on = self._answer(connection)
        finally:
            waiting = [self._listener.fileno()] if self._listener and self._connections.is_full else []
            self._connections.release(connection, goes_on=goes_on)
            for waits in (*waiting, *self._connections.resume_ready()):
                with contextlib.suppress(OSError, ValueError):  # a descriptor that is being closed
                    poller.watch(waits)

    def _answer(self, connection: Connection) -> bool:
        """Answer the requests on a connection; False if the connection has to be closed."""
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


class SharedPoller(Protocol):
    """Descriptors polled by several threads together."""

    def watch(self, descriptor: int, *, once: bool = True) -> None:
        """Watch a descriptor for a single event or, with `once=False`, for all. May be called again after an event.

        Raises:
            OSError: The descriptor is closed, or the kernel has no room.
        """

    def next(self) -> int | None:
        """Wait for a readable descriptor, returned to a single thread; None means to call again."""

    def close(self) -> None:
        """Close the poller. Call after the last thread has ended."""


class SharedEpoll(SharedPoller):
    """All threads wait in epoll, and the kernel wakes a single thread."""

    def __init__(self) -> None:
        self._epoll = select.epoll()

    def watch(self, descriptor: int, *, once: bool = True) -> None:
        events = select.EPOLLIN | (select.EPOLLONESHOT if once else 0)
        try:
            self._epoll.modify(descriptor, events)
        except FileNotFoundError:
            self._epoll.register(descriptor, events)

    def next(self) -> int | None:
        return next((descriptor for descriptor, _ in self._epoll.poll(maxevents=1)), None)

    def close(self) -> None:
        self._epoll.close()


class SharedPoll(SharedPoller):
    """A single thread waits in poll, and the others for a lock; for systems without epoll."""

    def __init__(self) -> None:
        self._poll_lock, self._lock = threading.Lock(), threading.Lock()
        self._watched: dict[int, bool] = {}
        """Descriptor to True if only one event is wanted."""
        self._wake_read, self._wake_write = os.pipe()
        for each in (self._wake_read, self._wake_write):
            os.set_blocking(each, False)

    def watch(self, descriptor: int, *, once: bool = True) -> None:
        with self._lock:
            self._watched[descriptor] = once
        with contextlib.suppress(BlockingIOError):  # the pipe is full, and wakes the thread anyway
            os.write(self._wake_write, b"x")

    def next(self) -> int | None:
        with self._poll_lock:
            poll = select.poll()
            poll.register(self._wake_read, select.POLLIN)
            with self._lock:
                for descriptor in self._watched:
                    poll.register(descriptor, select.POLLIN)
            for descriptor, event in poll.poll():
                if descriptor == self._wake_read:
                    os.read(self._wake_read, 4096)
                    continue
                with self._lock:
                    if self._watched[descriptor] or event & select.POLLNVAL:
                        del self._watched[descriptor]
                if not event & select.POLLNVAL:
                    return descriptor
            return None

    def close(self) -> None:
        os.close(self._wake_read)
        os.close(self._wake_write)


def new_poller() -> SharedPoller:
    """Return the poller of this system. Raises OSError if no descriptor is free."""
    return SharedEpoll() if hasattr(select, "epoll") else SharedPoll()
