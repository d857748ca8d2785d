"""Streams to children of this process."""

from __future__ import annotations

from environments.shell.child_stream import ChildStream
from environments.shell.stream import Chunk
from environments.sink import Channel


def test_what_a_child_has_not_read_is_known_behind_its_end() -> None:
    stream = ChildStream(["/bin/sh", "-c", "read -r line; echo $line; exec sleep 1000"])
    stream.write(b"read\n")
    assert stream.read(60) == Chunk(Channel.STDOUT, b"read\n")
    assert stream.unread_bytes() == 0
    stream.write(b"left")
    stream._child.kill()
    stream._child.wait()
    assert stream.unread_bytes() == 4
    stream.close()
