from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from environments.docker.stream import FrameDecoder
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
