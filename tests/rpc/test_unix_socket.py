from __future__ import annotations

import contextlib
import os
import socket
import stat
import threading
import time
from pathlib import Path

import psutil
import pytest

from rpc import MAX_MESSAGE_BYTES, Request, Response
from rpc.connection import MAX_CONNECTIONS
from rpc.unix_socket import MAX_THREADS


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
    ("begin", "rest", "expected"),
    [
        (b"\n", b"", "token is wrong"),
        (b"\0\xff\n", b"", "token is wrong"),
        (b"[1]\n", b"", "token is wrong"),
        (Request("f", "echo", [1], {}, "forged").encode(), b"", "token is wrong"),
        (b"", b"x" * (MAX_MESSAGE_BYTES + 1_000_000), "too large"),
    ],
    ids=["empty", "binary", "list", "forged", "endless"],
)
def test_what_is_no_request_gets_an_error_and_its_connection_is_closed(line, connection, begin, rest, expected):
    connection.sendall(begin or line.dispatcher.prefix)
    with contextlib.suppress(ConnectionError):
        connection.sendall(rest)
    with connection.makefile("rb") as reader:
        assert expected in Response.decode(reader.readline()).error
        with contextlib.suppress(ConnectionResetError):
            assert reader.readline() == b""
    assert line.run("print(h.echo('still there'))") == "still there\n"


def test_what_is_no_json_gets_an_error_and_the_connection_goes_on(line, connection):
    connection.sendall(line.dispatcher.prefix + b"\n")
    assert "not JSON" in answer(connection).error
    connection.sendall(valid(line))
    assert answer(connection).result == "ok"


def test_a_half_written_line_is_no_request(line, connection):
    connection.sendall(valid(line)[:-10])
    connection.shutdown(socket.SHUT_WR)
    assert connection.recv(10) == b""
    assert line.dispatcher.calls_made == 0


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


def connect(line, count):
    path = str(socket_directory(line) / "socket")
    connections = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(count)]
    for each in connections:
        each.connect(path)
        each.settimeout(30)
    return connections


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_connections_by_the_hundred_cost_no_threads_and_few_descriptors(line):
    threads, before = threading.active_count(), descriptors()
    ours = []
    try:
        for _ in range(5):
            ours += connect(line, 60)
            assert threading.active_count() <= threads + MAX_THREADS
            assert descriptors() - before - len(ours) <= MAX_CONNECTIONS + 1
        assert line.run("print(h.echo('still there'))") == "still there\n"
    finally:
        for each in ours:
            each.close()


def test_connections_without_the_token_are_not_read_for(line):
    """40 connections on which 10 MB each are said: what was read of them would be 400 MB."""
    ours = connect(line, 40)
    try:
        before = psutil.Process().memory_info().rss
        for each in ours:
            each.settimeout(0.2)
            with contextlib.suppress(OSError):
                each.sendall(b"x" * 10_000_000)
        assert line.run("print(h.echo('still there'))") == "still there\n"
        assert psutil.Process().memory_info().rss - before < 20_000_000
    finally:
        for each in ours:
            each.close()


def test_unfinished_large_lines_take_no_memory_to_speak_of(line):
    """The script knows the token, and begins 30 requests of 31 MB and ends none: 930 MB, if all were read."""
    code = """
    import socket, threading
    def begin():
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected:
            connected.connect(h._SOCKET_PATH)
            connected.sendall(b'{"token":"' + h._TOKEN.encode() + b'","id":"')
            connected.settimeout(3)
            try:
                connected.sendall(b"x" * 31_000_000)
            except OSError:
                pass
    threads = [threading.Thread(target=begin) for _ in range(30)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    """
    process = psutil.Process()
    before = most = process.memory_info().rss
    with line.popen(code) as script:
        while script.poll() is None:
            most = max(most, process.memory_info().rss)
            time.sleep(0.05)
    assert most - before < 150_000_000
    assert line.run("print(h.echo('still there'))") == "still there\n"


def test_a_script_may_have_more_threads_than_connections(open_line):
    line = open_line({"echo": lambda value: value}, max_calls=1000)
    code = """
    import threading
    together = threading.Barrier(150)
    wrong = []
    def work(number):
        for round in range(3):
            together.wait()
            if h.echo([number, round]) != [number, round]:
                wrong.append(number)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(150)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(wrong)
    """
    assert line.run(code) == "[]\n"
    assert line.dispatcher.calls_made == 450


def test_a_script_that_does_not_read_its_answers_keeps_nobody_waiting(open_line):
    line = open_line({"large": lambda: "x" * 5_000_000}, max_calls=100)
    ours = connect(line, 40)
    try:
        for number, each in enumerate(ours):
            each.sendall(Request(f"id{number}", "large", [], {}, line.token).encode())
        assert ours[0].recv(10)
        line.close()
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
