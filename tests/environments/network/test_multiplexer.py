"""Frames of the network proxy with a malicious target and with very many connections."""

from __future__ import annotations

import asyncio
import gc
import resource
import socket
import struct
from collections.abc import Callable
from unittest import mock

import pytest
from targets.idle_stream import IdleStream
from targets.local_proxy import NameTable, local_proxy, rest_of, web

from environments.loop import run
from environments.network.multiplexer import HEAD, MAX_CONNECTIONS, MAX_FRAME, WINDOW, Multiplexer, TargetConnection
from environments.output import Channel as Output


class Target(IdleStream):
    """A stream whose incoming frames the test supplies. Without `drains`, outgoing frames are never sent."""

    def __init__(self, drains: bool = True) -> None:
        self.drains = drains
        self.frames: list[tuple[bytes, int, bytes]] = []
        self.sent = 0

    def write(self, data: bytes) -> None:
        if self.ended.done():
            raise BrokenPipeError
        kind, number, size = HEAD.unpack_from(data)
        assert len(data) == HEAD.size + size
        self.sent += len(data)
        self.frames.append((kind, number, data[HEAD.size :]))

    async def drain(self) -> None:
        while not self.drains and not self.ended.done():
            await asyncio.sleep(0.01)

    def deliver(self, kind: bytes, number: int = 0, data: bytes = b"") -> None:
        self.receiver.data_received(Output.STDOUT, HEAD.pack(kind, number, len(data)) + data)


def run_multiplexer(test: Callable[[Multiplexer, Target], object], drains: bool = True, serve: object = None) -> Target:
    """Run a test on the loop with a ready multiplexer; return the test's target."""

    async def echo(connection: TargetConnection) -> None:
        while data := await connection.read():
            await connection.write(data)
        connection.write_eof()

    async def work(_: object) -> Target:
        channel, target = Multiplexer(serve or echo), Target(drains)
        channel.attach(target)
        target.deliver(b"R", 0, b"20000")
        assert await channel.ready == "20000"
        if asyncio.iscoroutine(left := test(channel, target)):
            await left
        channel.end()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not channel._connections and not channel._tasks, "no connection and no task is left"
        return target

    return run(work)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_connection_is_read_and_written() -> None:
    async def test(channel: Multiplexer, target: Target) -> None:
        target.deliver(b"O", 7)
        target.deliver(b"D", 7, b"hello")
        target.deliver(b"E", 7)
        await settle()

    assert run_multiplexer(test).frames == [(b"D", 7, b"hello"), (b"E", 7, b""), (b"C", 7, b"")]


def test_frames_may_come_in_any_pieces() -> None:
    async def test(channel: Multiplexer, target: Target) -> None:
        text = b"".join(HEAD.pack(k, 1, len(d)) + d for k, d in ((b"O", b""), (b"D", b"hello"), (b"E", b"")))
        for byte in text:
            target.receiver.data_received(Output.STDOUT, bytes([byte]))
        await settle()

    assert run_multiplexer(test).frames[0] == (b"D", 1, b"hello")


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
def test_frames_that_the_program_never_sends_end_the_multiplexer(frames: list[tuple[bytes, int, bytes]]) -> None:
    async def test(channel: Multiplexer, target: Target) -> None:
        for frame in frames:
            if channel.is_up:
                target.deliver(*frame)
        assert not channel.is_up

    run_multiplexer(test)


def test_the_head_of_a_frame_that_is_too_large_ends_the_multiplexer() -> None:
    async def test(channel: Multiplexer, target: Target) -> None:
        target.receiver.data_received(Output.STDOUT, HEAD.pack(b"D", 1, 2**32 - 1))
        assert not channel.is_up

    run_multiplexer(test)


def test_frames_of_unknown_connections_are_dropped() -> None:
    async def test(channel: Multiplexer, target: Target) -> None:
        for kind in (b"D", b"W", b"E", b"C"):
            for number in range(1000):
                target.deliver(kind, number, b"xxxxx")
        assert channel.is_up and target.frames == []

    run_multiplexer(test)


def test_garbage_without_end_is_not_kept() -> None:
    async def test(channel: Multiplexer, target: Target) -> None:
        for _ in range(200):
            target.receiver.data_received(Output.STDERR, b"e" * 100_000)
            target.receiver.data_received(Output.STDOUT, b"g" * 100_000)
        assert not channel.is_up and len(channel._buffer) == 0 and len(channel._errors) <= 2000

    run_multiplexer(test)


def test_a_connection_that_is_closed_at_once_leaves_nothing() -> None:
    async def test(channel: Multiplexer, target: Target) -> None:
        for number in range(1000):
            target.deliver(b"O", number)
            target.deliver(b"C", number)
            if number % 100 == 0:
                await settle()
        await settle()
        assert not channel._connections and channel.is_up

    run_multiplexer(test)


def test_connections_above_the_limit_are_answered_503_and_not_served() -> None:
    async def test(channel: Multiplexer, target: Target) -> None:
        for number in range(10_000):
            target.deliver(b"O", number)
        assert len(channel._connections) == 2 * MAX_CONNECTIONS
        await settle()

    frames = run_multiplexer(test).frames
    assert frames[0][2].startswith(b"HTTP/1.1 503 ") and frames[1][0] == b"C"


def test_unsent_data_for_a_target_that_drains_nothing_is_limited() -> None:
    async def test(channel: Multiplexer, target: Target) -> None:
        for number in range(20_000):
            if channel.is_up:
                target.deliver(b"O", number)
        assert not channel.is_up

    most = 1024 * 1024
    with mock.patch("environments.network.multiplexer.MAX_UNSENT", most):
        assert run_multiplexer(test, drains=False).sent < most + MAX_FRAME


def test_data_in_flight_of_a_connection_is_limited_to_a_window() -> None:
    async def serve(connection: TargetConnection) -> None:
        await connection.write(b"x" * (4 * WINDOW))

    async def test(channel: Multiplexer, target: Target) -> None:
        target.deliver(b"O", 1)
        await settle()
        assert sum(len(data) for _, _, data in target.frames) == WINDOW
        target.deliver(b"W", 1, struct.pack(">I", 1000))
        await settle()
        assert sum(len(data) for _, _, data in target.frames) == WINDOW + 1000

    run_multiplexer(test, serve=serve)


def test_ten_thousand_connections_are_bounded_and_others_are_answered_503() -> None:
    """Programs in the target may open any number of connections."""
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
            assert rest_of(held[0]).endswith(b"this is /"), "the first connections are served"
            for client in held:
                client.close()
            while channel._connections:
                pass
            assert here.get(f"http://{server.place}/").endswith(b"this is /"), "and so are later connections"
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
