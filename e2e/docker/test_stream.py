"""The stream of a `docker exec`, on a real engine."""

from __future__ import annotations

import threading

import pytest

from environments.shell.stream import Terminal
from environments.sink import Channel


def test_a_reader_is_woken_when_the_stream_is_closed(shared):
    shared.execute("true")
    stream = shared.open_stream(["/bin/sh"])
    assert stream.read(0.05) is None
    assert stream.exit_code(0.05) is None
    chunks = []
    reader = threading.Thread(target=lambda: chunks.append(stream.read(None)))
    reader.start()
    stream.close()
    reader.join(30)
    assert not reader.is_alive()
    assert chunks[0].data == b""
    with pytest.raises(BrokenPipeError):
        stream.write(b"x")
    stream.close()


def test_streams_are_kept_apart_and_end_with_the_exit_code(shared):
    shared.execute("true")
    stream = shared.open_stream(["/bin/sh", "-c", "cat; echo problem >&2; kill -s TERM $$"])
    stream.write(b"\0\xff" * 100_000)
    stream.close_write()
    got = dict.fromkeys(Channel, b"")
    while chunk := stream.read(30):
        if not chunk.data:
            break
        got[chunk.channel] += chunk.data
    assert got == {Channel.STDOUT: b"\0\xff" * 100_000, Channel.STDERR: b"problem\n"}
    assert stream.exit_code(30) == 128 + 15
    stream.close()


def test_nothing_that_a_terminal_prints_at_once_is_lost(shared):
    shared.execute("true")
    for _ in range(10):
        stream = shared.open_stream(["/bin/echo", "first"], Terminal())
        text = b""
        while (chunk := stream.read(30)) and chunk.data:
            text += chunk.data
        stream.close()
        assert text == b"first\r\n"
