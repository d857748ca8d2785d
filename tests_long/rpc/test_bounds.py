"""Bounds of memory and threads, tested with megabytes, and hundreds of threads and requests."""

from __future__ import annotations

import base64
import os
import socket
import threading
import time

import psutil
import pytest

from environments.conformance.check import wait_until
from rpc import MAX_MESSAGE_BYTES, Dispatcher, Request, Response
from rpc.file_queue import CollectedRequest, CollectedRequests

STILL_THERE = "print(h.echo('still there'))"


def echo(value):
    return value


@pytest.fixture(params=["unix", "relay", "file"])
def open_any(request, open_channel):
    env = None if request.param == "unix" else request.getfixturevalue("local_env")
    return lambda max_calls=50, **handlers: open_channel(handlers, env, max_calls, relay=request.param == "relay")


@pytest.fixture
def queue_line(open_channel, local_env):
    return open_channel({"echo": echo, "wait": threading.Event().wait}, local_env)


def memory():
    return psutil.Process().memory_info().rss


def wake(channel):
    pipe = os.open(channel.directory / "rpc" / "wake", os.O_RDWR | os.O_NONBLOCK)
    os.write(pipe, b"\n")
    os.close(pipe)


# On every transport.


def test_ten_megabytes_go_both_ways(open_any):
    channel = open_any(echo=echo)
    assert channel.run("text = 'x\\n' * 5_000_000\nprint(h.echo(text) == text)") == "True\n"


# The dispatcher.


def test_answers_are_not_kept_beyond_their_share():
    """30 answers of 9 MB, as to a script that reads large files."""
    dispatcher = Dispatcher({"large": lambda: "x" * 9_000_000}, token="token", max_calls=50)

    def call(number):
        answer = Response.decode(dispatcher.dispatch(Request(f"id{number}", "large", [], {}, "token").encode()))
        assert answer.error is None

    call(0)
    before = memory()
    for number in range(1, 30):
        call(number)
    assert memory() - before < 60_000_000


# The socket.


def test_unfinished_large_lines_take_no_memory_to_speak_of(open_channel):
    """The script has the token, and begins 30 requests of 31 MB without an end: 930 MB, if all were read."""
    channel = open_channel({"echo": echo})
    code = """
    import socket, threading
    def begin():
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected:
            token, place = h._own()
            connected.connect(place)
            connected.sendall(b'{"token":"' + token.encode() + b'","id":"')
            connected.settimeout(3)
            try:
                connected.sendall(b"x" * 31_000_000)
            except OSError:
                pass
    threads = [threading.Thread(target=begin) for _ in range(30)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    """
    before = most = memory()
    with channel.popen(code) as script:
        while script.poll() is None:
            most = max(most, memory())
            time.sleep(0.05)
        assert script.stdout.read() == ""
    assert most - before < 150_000_000
    assert channel.run(STILL_THERE) == "still there\n"


def test_a_script_may_have_more_threads_than_connections(open_channel):
    channel = open_channel({"echo": echo}, max_calls=1000)
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
    assert channel.run(code) == "[]\n"
    assert channel.dispatcher.calls_made == 450


def test_a_script_that_does_not_read_its_answers_keeps_nobody_waiting(open_channel):
    channel = open_channel({"large": lambda: "x" * 5_000_000}, max_calls=100)
    ours = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(40)]
    try:
        for number, each in enumerate(ours):
            each.connect(channel.place)
            each.settimeout(60)
            each.sendall(Request(f"id{number}", "large", [], {}, channel.token).encode())
        assert ours[0].recv(10)
        channel.close()
    finally:
        for each in ours:
            each.close()


# The queue of files.


def test_a_huge_request_gets_an_error_and_the_next_one_is_served(queue_line):
    queue = queue_line.directory / "rpc"
    (queue / "req_009999.tmp").write_bytes(queue_line.dispatcher.prefix + b"x" * (MAX_MESSAGE_BYTES + 1000))
    (queue / "req_009999.tmp").rename(queue / "req_009999")
    wake(queue_line)
    assert wait_until((queue / "res_009999").exists, 60)
    assert "too large" in Response.decode(base64.b64decode((queue / "res_009999").read_bytes())).error
    assert queue_line.run(STILL_THERE) == "still there\n"


def test_links_to_one_huge_request_are_brought_one_by_one(queue_line):
    """16 hard links to a sparse file of 32 MB. All would be collected at once."""
    queue = queue_line.directory / "rpc"
    with (queue / "huge").open("wb") as file:
        file.truncate(MAX_MESSAGE_BYTES)
    before = most = memory()
    for number in range(1, 17):
        (queue / f"req_{number:06d}").hardlink_to(queue / "huge")
    wake(queue_line)
    deadline = time.monotonic() + 8
    while time.monotonic() < deadline:
        most = max(most, memory())
        time.sleep(0.02)
    assert wait_until((queue / "res_000001").exists, 60)
    assert most - before < 400_000_000


def test_noise_is_not_buffered():
    collected = CollectedRequests("@")
    before = memory()
    for _ in range(100):
        assert [*collected.feed("x" * 1_000_000)] == []
    assert memory() - before < 50_000_000
    assert [*collected.feed("\n@ 1\n{}\n@ .\n")] == [CollectedRequest("1", b"{}")]
