from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from rpc import MAX_MESSAGE_BYTES, Request, Response


@pytest.fixture
def line(open_line):
    return open_line({"echo": lambda value: value})


@pytest.fixture
def connection(line):
    names = {}
    exec(line.transport.client_source, names)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected:
        connected.connect(names["_SOCKET_PATH"])
        connected.settimeout(30)
        yield connected


def answer(connection):
    with connection.makefile("rb") as reader:
        return Response.decode(reader.readline())


def valid(line):
    return Request("id", "echo", ["ok"], {}, line.token).encode()


def socket_directory(line):
    names = {}
    exec(line.transport.client_source, names)
    return Path(names["_SOCKET_PATH"]).parent


def test_the_socket_is_in_a_private_directory_that_goes_away(line):
    directory = socket_directory(line)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert len(os.fsencode(directory / "socket")) < 100
    line.close()
    assert not directory.exists()


@pytest.mark.parametrize(
    ("request_line", "expected"),
    [
        (b"\n", "not JSON"),
        (b"\0\xff\n", "not JSON"),
        (b"[1]\n", "JSON list"),
        (Request("f", "echo", [1], {}, "forged").encode(), "token is wrong"),
    ],
)
def test_a_bad_line_gets_an_error_and_the_connection_goes_on(line, connection, request_line, expected):
    connection.sendall(request_line)
    assert expected in answer(connection).error
    connection.sendall(valid(line))
    assert answer(connection).result == "ok"


def test_a_line_above_the_limit_gets_an_error_and_the_connection_goes_on(line, connection):
    connection.sendall(b"x" * (MAX_MESSAGE_BYTES + 1_000_000))
    connection.sendall(b"x\n" + valid(line))
    with connection.makefile("rb") as reader:
        assert "too large" in Response.decode(reader.readline()).error
        assert Response.decode(reader.readline()).result == "ok"


def test_a_half_written_line_gets_an_error(line, connection):
    connection.sendall(valid(line)[:-10])
    connection.shutdown(socket.SHUT_WR)
    assert "not JSON" in answer(connection).error


def test_a_request_sent_again_on_another_connection_runs_once(open_line):
    runs = []
    line = open_line({"echo": runs.append})
    for _ in range(2):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected:
            connected.connect(str(socket_directory(line) / "socket"))
            connected.sendall(valid(line))
            assert answer(connected).error is None
    assert runs == ["ok"]


def test_a_peer_that_leaves_without_reading_harms_nobody(line):
    for _ in range(5):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected:
            connected.connect(str(socket_directory(line) / "socket"))
            connected.sendall(valid(line))
    assert line.run("print(h.echo('still there'))") == "still there\n"


def test_a_call_after_the_end_says_that_the_tools_are_gone(line):
    code = """
    try:
        h.echo(1)
    except h.ToolError as error:
        print(error)
    """
    line.close()
    assert "echo: the tools can't be reached" in line.run(code)
