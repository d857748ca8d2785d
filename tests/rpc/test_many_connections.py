from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import pytest
from targets.tool_channel import connect

from rpc import MAX_MESSAGE_BYTES, Request, Response
from rpc.connection import MAX_CONNECTIONS
from rpc.unix_socket import MAX_THREADS


@pytest.fixture
def channel(open_channel):
    return open_channel({"echo": lambda value: value})


@pytest.mark.parametrize("rest", [b"", b"x" * (MAX_MESSAGE_BYTES + 1_000_000)], ids=["forged", "endless"])
def test_an_invalid_request_gets_an_error_and_its_connection_is_closed(channel, connection, rest):
    connection.sendall(channel.dispatcher.prefix if rest else Request("f", "echo", [1], {}, "forged").encode())
    with contextlib.suppress(ConnectionError):
        connection.sendall(rest)
    with connection.makefile("rb") as reader:
        assert ("too large" if rest else "token is wrong") in Response.decode(reader.readline()).error
        with contextlib.suppress(ConnectionResetError):
            assert reader.readline() == b""
    assert channel.run("print(h.echo('still there'))") == "still there\n"


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_connections_by_the_hundred_cost_no_threads_and_few_descriptors(channel):
    assert channel.run("print(h.echo('here'))") == "here\n"  # starts the serving thread
    threads, before = threading.active_count(), descriptors()
    ours = []
    try:
        for _ in range(5):
            ours += connect(channel, 60)
            assert threading.active_count() <= threads + MAX_THREADS
            assert descriptors() - before - len(ours) <= MAX_CONNECTIONS + 1
        assert channel.run("print(h.echo('still there'))") == "still there\n"
    finally:
        for each in ours:
            each.close()
