from __future__ import annotations

import contextlib
import select
import socket
from pathlib import Path

import psutil
import pytest
from targets.script_line import connect, rpc_threads, socket_path

from environments.conformance.check import wait_until
from environments.loop import run
from rpc import Dispatcher, Request, Response, UnixSocketTransport


@pytest.fixture(params=["epoll", "poll"], autouse=True)
def waiting(request, monkeypatch):
    if request.param == "poll":
        monkeypatch.delattr(select, "epoll")


@pytest.fixture
def line(open_line):
    return open_line({"echo": lambda value: value})


def answer(connection):
    with connection.makefile("rb") as reader:
        return Response.decode(reader.readline())


def valid(line):
    return Request("id", "echo", ["ok"], {}, line.token).encode()


def test_there_is_no_thread_before_the_first_connection(line):
    assert rpc_threads() == []
    assert line.run("print(h.echo('there'))") == "there\n"
    assert rpc_threads() != []


def test_one_that_nobody_calls_costs_one_descriptor_and_closes_it(local_env, tmp_path):
    before = psutil.Process().num_fds()
    transport = UnixSocketTransport(Dispatcher({}, token="token"))
    run(lambda _: _started(transport, f"{tmp_path}/socket"))
    assert psutil.Process().num_fds() == before + 1
    transport.close()
    assert wait_until(lambda: psutil.Process().num_fds() == before, 30)


async def _started(transport, place):
    transport.start(place)


def test_the_address_may_be_long(open_line, tmp_path):
    line = open_line({"echo": lambda value: value}, below="d" * 120)
    assert len(socket_path(line)) > 108
    assert line.run("print(h.echo('there'))") == "there\n"


def test_what_is_no_json_gets_an_error_and_the_connection_goes_on(line, connection):
    connection.sendall(line.dispatcher.prefix + b"\n")
    assert "not JSON" in answer(connection).error
    connection.sendall(valid(line))
    assert answer(connection).result == "ok"


def test_a_request_sent_again_on_another_connection_runs_once(open_line):
    runs = []
    line = open_line({"echo": runs.append})
    for _ in range(2):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected:
            connected.connect(str(Path(socket_path(line)).parent / "socket"))
            connected.sendall(valid(line))
            assert answer(connected).error is None
    assert runs == ["ok"]


def test_a_peer_that_leaves_without_reading_harms_nobody(line):
    for _ in range(5):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected:
            connected.connect(str(Path(socket_path(line)).parent / "socket"))
            connected.sendall(valid(line))
    assert line.run("print(h.echo('still there'))") == "still there\n"


def test_connections_without_the_token_are_not_read_for(line):
    """20 connections on which 10 MB each are said: what was read of them would be 200 MB."""
    ours = connect(line, 20)
    try:
        before = psutil.Process().memory_info().rss
        for each in ours:
            each.settimeout(0.01)
            with contextlib.suppress(OSError):
                each.sendall(b"x" * 10_000_000)
        assert line.run("print(h.echo('still there'))") == "still there\n"
        assert psutil.Process().memory_info().rss - before < 20_000_000
    finally:
        for each in ours:
            each.close()


def test_a_call_after_the_end_says_that_the_tools_are_gone(line):
    code = """
    try:
        h.echo(1)
    except h.ToolError as error:
        print(error)
    """
    line.close()
    assert "echo: the tools can't be reached" in line.run(code)


def test_a_tool_error_can_be_pickled(line):
    code = "import pickle\nprint(repr(pickle.loads(pickle.dumps(h.ToolError('why')))))"
    assert line.run(code) == "ToolError('why')\n"
