from __future__ import annotations

import contextlib
import select
import socket
from pathlib import Path

import psutil
import pytest
from targets.tool_channel import connect, rpc_threads, socket_path

from environments.conformance.check import wait_until
from environments.loop import run
from rpc import Dispatcher, Request, Response, UnixSocketTransport


@pytest.fixture(params=["epoll", "poll"], autouse=True)
def poller(request, monkeypatch):
    if request.param == "poll":
        monkeypatch.delattr(select, "epoll")


@pytest.fixture
def channel(open_channel):
    return open_channel({"echo": lambda value: value})


def answer(connection):
    with connection.makefile("rb") as reader:
        return Response.decode(reader.readline())


def valid(channel):
    return Request("id", "echo", ["ok"], {}, channel.token).encode()


def test_there_is_no_thread_before_the_first_connection(channel):
    assert rpc_threads() == []
    assert channel.run("print(h.echo('there'))") == "there\n"
    assert rpc_threads() != []


def test_an_unused_transport_costs_one_descriptor_and_closes_it(local_env, tmp_path):
    before = psutil.Process().num_fds()
    transport = UnixSocketTransport(Dispatcher({}, token="token"))
    run(lambda _: _started(transport, f"{tmp_path}/socket"))
    assert psutil.Process().num_fds() == before + 1
    transport.close()
    assert wait_until(lambda: psutil.Process().num_fds() == before, 30)


async def _started(transport, place):
    transport.start(place)


def test_the_address_may_be_long(open_channel, tmp_path):
    channel = open_channel({"echo": lambda value: value}, below="d" * 120)
    assert len(socket_path(channel)) > 108
    assert channel.run("print(h.echo('there'))") == "there\n"


def test_invalid_json_gets_an_error_and_the_connection_goes_on(channel, connection):
    connection.sendall(channel.dispatcher.prefix + b"\n")
    assert "not JSON" in answer(connection).error
    connection.sendall(valid(channel))
    assert answer(connection).result == "ok"


def test_a_request_sent_again_on_another_connection_runs_once(open_channel):
    runs = []
    channel = open_channel({"echo": runs.append})
    for _ in range(2):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected:
            connected.connect(str(Path(socket_path(channel)).parent / "socket"))
            connected.sendall(valid(channel))
            assert answer(connected).error is None
    assert runs == ["ok"]


def test_a_peer_that_leaves_without_reading_harms_no_other(channel):
    for _ in range(5):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected:
            connected.connect(str(Path(socket_path(channel)).parent / "socket"))
            connected.sendall(valid(channel))
    assert channel.run("print(h.echo('still there'))") == "still there\n"


def test_connections_without_the_token_are_not_read_for(channel):
    """20 connections announce 10 MB each. Reading them would take 200 MB."""
    ours = connect(channel, 20)
    try:
        before = psutil.Process().memory_info().rss
        for each in ours:
            each.settimeout(0.01)
            with contextlib.suppress(OSError):
                each.sendall(b"x" * 10_000_000)
        assert channel.run("print(h.echo('still there'))") == "still there\n"
        assert psutil.Process().memory_info().rss - before < 20_000_000
    finally:
        for each in ours:
            each.close()


def test_a_call_after_the_end_has_an_error_about_the_closed_tools(channel):
    code = """
    try:
        h.echo(1)
    except h.ToolError as error:
        print(error)
    """
    channel.close()
    assert "echo: the tools can't be reached" in channel.run(code)


def test_a_tool_error_can_be_pickled(channel):
    code = "import pickle\nprint(repr(pickle.loads(pickle.dumps(h.ToolError('why')))))"
    assert channel.run(code) == "ToolError('why')\n"
