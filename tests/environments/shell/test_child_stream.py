"""Streams to children of this process."""

from __future__ import annotations

import fcntl
import os

import pytest

from environments import BaseEnvironment
from environments.shell.child_stream import ChildStream
from environments.shell.stream import Chunk
from environments.sink import Channel


def pipe_size(pid: str) -> int:
    """Return how many bytes the pipe holds that a shell speaks into."""
    descriptor = os.open(f"/proc/{pid}/fd/211", os.O_WRONLY | os.O_NONBLOCK)
    try:
        return fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ)
    finally:
        os.close(descriptor)


def test_a_pipe_is_large_only_while_a_large_output_comes(env: BaseEnvironment) -> None:
    pid = env.execute("echo $$").output.strip()
    usual = pipe_size(pid)
    assert usual <= 64 * 1024, "a user's pipes may hold 64 MB in all"
    sizes: list[int] = []
    env.execute("head -c 20000000 /dev/zero", on_output=lambda _: sizes.append(pipe_size(pid)))
    assert max(sizes) > usual
    env.execute("echo")
    assert pipe_size(pid) == usual


def test_a_child_of_another_user_ends_with_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = ChildStream(["cat"])

    def refuse() -> None:
        raise PermissionError

    monkeypatch.setattr(stream._child, "kill", refuse)
    stream.close()
    assert stream.exit_code(0) == 0


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
