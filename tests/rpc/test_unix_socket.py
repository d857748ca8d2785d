from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
from pathlib import Path

import psutil
import pytest
from targets.script_line import socket_path

from rpc import Request, Response


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


def test_the_socket_is_in_a_private_directory_that_goes_away(line):
    directory = Path(socket_path(line)).parent
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert len(os.fsencode(directory / "socket")) < 100
    line.close()
    assert not directory.exists()


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


def connect(line, count):
    path = str(Path(socket_path(line)).parent / "socket")
    connections = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(count)]
    for each in connections:
        each.connect(path)
        each.settimeout(30)
    return connections


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
