from __future__ import annotations

import socket
import ssl
import struct
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from environments import UnsupportedError
from environments.docker.stream import FrameDecoder, _take_over
from environments.shell.stream import Terminal
from environments.sink import Channel


@given(st.lists(st.tuples(st.sampled_from(Channel), st.binary(max_size=50))), st.integers(1, 40))
def test_frames_cut_anywhere_come_out_whole_and_in_order(frames, step):
    wire = b"".join(struct.pack(">BxxxL", channel.value, len(data)) + data for channel, data in frames)
    decoder = FrameDecoder()
    chunks = [chunk for start in range(0, len(wire), step) for chunk in decoder.feed(wire[start : start + step])]
    assert all(chunk.data for chunk in chunks), "an empty chunk would mean the end"
    for channel in Channel:
        sent = b"".join(data for each, data in frames if each is channel)
        assert b"".join(chunk.data for chunk in chunks if chunk.channel is channel) == sent
    order = [channel for channel, data in frames for _ in data]
    assert [chunk.channel for chunk in chunks for _ in chunk.data] == order


def test_an_engine_behind_tls_is_refused_with_another_way():
    ours, theirs = socket.socketpair()
    with (
        theirs,
        ssl.create_default_context().wrap_socket(ours, server_hostname="x", do_handshake_on_connect=False) as raw,
    ):
        connection = type("Answer", (), {"_sock": raw, "_response": ours, "close": lambda self: None})()
        with pytest.raises(UnsupportedError, match="over=ssh"):
            _take_over(connection)


def test_a_reader_is_woken_when_the_stream_is_closed(docker_environment):
    env = docker_environment()
    env.execute("true")
    stream = env.open_stream(["/bin/sh"])
    chunks = []
    reader = threading.Thread(target=lambda: chunks.append(stream.read(None)))
    reader.start()
    stream.close()
    reader.join(5)
    assert not reader.is_alive()
    assert chunks[0].data == b""
    with pytest.raises(BrokenPipeError):
        stream.write(b"x")
    stream.close()


def test_a_read_without_bytes_ends_with_its_time(docker_environment):
    env = docker_environment()
    env.execute("true")
    stream = env.open_stream(["/bin/sh"])
    assert stream.read(0.05) is None
    assert stream.exit_code(0.05) is None
    stream.close()


def test_streams_are_kept_apart_and_end_with_the_exit_code(docker_environment):
    env = docker_environment()
    env.execute("true")
    stream = env.open_stream(["/bin/sh", "-c", "cat; echo problem >&2; kill -s TERM $$"])
    stream.write(b"\0\xff" * 100_000)
    stream.close_write()
    got = dict.fromkeys(Channel, b"")
    while chunk := stream.read(10):
        if not chunk.data:
            break
        got[chunk.channel] += chunk.data
    assert got == {Channel.STDOUT: b"\0\xff" * 100_000, Channel.STDERR: b"problem\n"}
    assert stream.exit_code(5) == 128 + 15
    stream.close()


def test_nothing_that_a_terminal_prints_at_once_is_lost(docker_environment):
    env = docker_environment()
    env.execute("true")
    for _ in range(20):
        stream = env.open_stream(["/bin/echo", "first"], Terminal())
        text = b""
        while (chunk := stream.read(10)) and chunk.data:
            text += chunk.data
        stream.close()
        assert text == b"first\r\n"
