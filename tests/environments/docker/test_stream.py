from __future__ import annotations

import socket
import ssl
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from environments import UnsupportedError
from environments.docker.stream import FrameDecoder, take_over
from environments.output import Channel


@settings(max_examples=25)
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
            take_over(connection)
