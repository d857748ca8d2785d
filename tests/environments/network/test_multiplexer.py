"""The frames of the network proxy, with a target that means harm, and with very many connections."""

from __future__ import annotations

import asyncio
import gc
import resource
import socket
import struct
from collections.abc import Callable
from unittest import mock

import pytest
from targets.local_proxy import NameTable, local_proxy, rest_of, web

from environments.loop import run
from environments.network.multiplexer import HEAD, MAX_CONNECTIONS, MAX_FRAME, WINDOW, Multiplexer, TargetConnection
from environments.output import Channel as Output
from environments.shell.stream import Receiver, Stream, Terminal


class Target(Stream):
    """A stream into which a test puts what the target sends. It may never take what it is sent."""

    def __init__(self, takes: bool = True) -> None:
        self.takes = takes
        self.frames: list[tuple[bytes, int, bytes]] = []
        self.sent = 0

    def _begin(self) -> None:
        pass

    def write(self, data: bytes) -> None:
        if self.ended.done():
            raise BrokenPipeError
        kind, number, size = HEAD.unpack_from(data)
        assert len(data) == HEAD.size + size
        self.sent += len(data)
        self.frames.append((kind, number, data[HEAD.size :]))

    async def drain(self) -> None:
        while not self.takes and not self.ended.done():
            await asyncio.sleep(0.01)

    def close_write(self) -> None:
        pass

    def pause(self) -> None:
        pass

    resume = pause

    async def resize(self, terminal: Terminal) -> None:
        pass

    async def exit_code(self, timeout: float) -> int | None:
        return 0

    async def close(self) -> None:
        self._end()

    def gives(self, kind: bytes, number: int = 0, data: bytes = b"") -> None:
        self.receiver.data_received(Output.STDOUT, HEAD.pack(kind, number, len(data)) + data)

    @property
    def receiver(self) -> Receiver:
        return self._receiver  # type: ignore[no-any-return, attr-defined]

    @receiver.setter
    def receiver(self, receiver: Receiver) -> None:
        self._receiver = receiver


def told(test: Callable[[Multiplexer, Target], object], takes: bool = True, serve: object = None) -> Target:
    """Run a test on the loop, with a channel that is ready, and return its target."""

    async def echo(connection: TargetConnection) -> None:
        while data := await connection.read():
            await connection.write(data)
        connection.write_eof()

    async def work(_: object) -> Target:
        channel, target = Multiplexer(serve or echo), Target(takes)
        channel.attach(target)
        target.gives(b"R", 0, b"20000")
        assert await channel.ready == "20000"
        if asyncio.iscoroutine(left := test(channel, target)):
            await left
        channel.end()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not channel._connections and not channel._tasks, "nothing is left of what there was"
        return target

    return run(work)


async def quiet() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_connection_is_read_and_written() -> None:
    async def test(channel: Multiplexer, target: Target) -> None:
        target.gives(b"O", 7)
        target.gives(b"D", 7, b"hello")
        target.gives(b"E", 7)
        await quiet()

    assert told(test).frames == [(b"D", 7, b"hello"), (b"E", 7, b""), (b"C", 7, b"")]


def test_frames_may_come_in_any_pieces() -> None:
    async def test(channel: Multiplexer, target: Target) -> None:
        text = b"".join(HEAD.pack(k, 1, len(d)) + d for k, d in ((b"O", b""), (b"D", b"hello"), (b"E", b"")))
        for byte in text:
            target.receiver.data_received(Output.STDOUT, bytes([byte]))
        await quiet()

    assert told(test).frames[0] == (b"D", 1, b"hello")


@pytest.mark.parametrize(
    "frames",
    [
        [(b"X", 1, b"")],
        [(b"R", 0, b"1")],
        [(b"O", 1, b""), (b"O", 1, b"")],
        [(b"O", 1, b""), *[(b"D", 1, b"x" * MAX_FRAME)] * (WINDOW // MAX_FRAME + 1)],
        [(b"O", 1, b""), (b"E", 1, b""), (b"D", 1, b"x")],
        [(b"O", 1, b""), (b"W", 1, struct.pack(">I", 1))],
        [(b"O", 1, b""), (b"W", 1, struct.pack(">I", 2**32 - 1))],
        [(b"\0", 0, b"\0" * 100)],
    ],
)
def test_what_the_program_never_sends_ends_it(frames: list[tuple[bytes, int, bytes]]) -> None:
    async def test(channel: Multiplexer, target: Target) -> None:
        for frame in frames:
            if channel.is_up:
                target.gives(*frame)
        assert not channel.is_up

    told(test)


def test_so_does_a_frame_that_is_too_large_before_it_has_come() -> None:
    async def test(channel: Multiplexer, target: Target) -> None:
        target.receiver.data_received(Output.STDOUT, HEAD.pack(b"D", 1, 2**32 - 1))
        assert not channel.is_up

    told(test)


def test_frames_of_connections_that_there_are_not_are_dropped() -> None:
    async def test(channel: Multiplexer, target: Target) -> None:
        for kind in (b"D", b"W", b"E", b"C"):
            for number in range(1000):
                target.gives(kind, number, b"xxxxx")
        assert channel.is_up and target.frames == []

    told(test)


def test_garbage_without_end_is_not_kept() -> None:
    async def test(channel: Multiplexer, target: Target) -> None:
        for _ in range(200):
            target.receiver.data_received(Output.STDERR, b"e" * 100_000)
            target.receiver.data_received(Output.STDOUT, b"g" * 100_000)
        assert not channel.is_up and len(channel._buffer) == 0 and len(channel._errors) <= 2000

    told(test)


def test_a_connection_that_is_closed_at_once_leaves_nothing() -> None:
    async def test(channel: Multiplexer, target: Target) -> None:
        for number in range(1000):
            target.gives(b"O", number)
            target.gives(b"C", number)
            if number % 100 == 0:
                await quiet()
        await quiet()
        assert not channel._connections and channel.is_up

    told(test)


def test_more_connections_than_the_program_has_are_answered_and_not_served() -> None:
    async def test(channel: Multiplexer, target: Target) -> None:
        for number in range(10_000):
            target.gives(b"O", number)
        assert len(channel._connections) == 2 * MAX_CONNECTIONS
        await quiet()

    frames = told(test).frames
    assert frames[0][2].startswith(b"HTTP/1.1 503 ") and frames[1][0] == b"C"


def test_a_target_that_takes_nothing_is_sent_no_more_than_so_much() -> None:
    async def test(channel: Multiplexer, target: Target) -> None:
        for number in range(20_000):
            if channel.is_up:
                target.gives(b"O", number)
        assert not channel.is_up

    most = 1024 * 1024
    with mock.patch("environments.network.multiplexer.MAX_UNSENT", most):
        assert told(test, takes=False).sent < most + MAX_FRAME


def test_no_more_of_a_connection_is_under_way_than_a_window() -> None:
    async def serve(connection: TargetConnection) -> None:
        await connection.write(b"x" * (4 * WINDOW))

    async def test(channel: Multiplexer, target: Target) -> None:
        target.gives(b"O", 1)
        await quiet()
        assert sum(len(data) for _, _, data in target.frames) == WINDOW
        target.gives(b"W", 1, struct.pack(">I", 1000))
        await quiet()
        assert sum(len(data) for _, _, data in target.frames) == WINDOW + 1000

    told(test, serve=serve)


def test_ten_thousand_connections_are_bounded_and_others_are_answered_503() -> None:
    """They are made by programs in the target, which may have any number of them open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    try:
        with web() as server, local_proxy(server.place, lookup=NameTable()) as here:
            held = [here.connected() for _ in range(MAX_CONNECTIONS)]
            refused = 0
            for _ in range(9_744 // 16):
                more = [here.connected() for _ in range(16)]
                for client in more:
                    refused += rest_of(client).startswith(b"HTTP/1.1 503 ")
                    client.close()
            assert refused == 9_744 // 16 * 16
            channel = here.proxy._multiplexer
            assert channel and len(channel._connections) <= MAX_CONNECTIONS
            held[0].sendall(f"GET http://{server.place}/ HTTP/1.1\r\n\r\n".encode())
            assert rest_of(held[0]).endswith(b"this is /"), "those that were first are served"
            for client in held:
                client.close()
            while channel._connections:
                pass
            assert here.get(f"http://{server.place}/").endswith(b"this is /"), "and others behind them"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        gc.collect()


def test_a_client_that_reads_nothing_holds_up_no_other() -> None:
    listener = socket.create_server(("127.0.0.2", 0))
    place = f"127.0.0.2:{listener.getsockname()[1]}"
    with listener, web() as server, local_proxy(place, server.place) as here, here.connected() as deaf:
        deaf.sendall(f"CONNECT {place} HTTP/1.1\r\n\r\n".encode())
        with listener.accept()[0] as flood:
            flood.settimeout(1)
            with pytest.raises(TimeoutError):
                flood.sendall(b"x" * 100_000_000)
            assert here.get(f"http://{server.place}/").endswith(b"this is /")
