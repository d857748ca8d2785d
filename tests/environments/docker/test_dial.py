"""The relay: a pair of sockets between docker-py and a stream to the engine's host."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import cast

from targets.idle_stream import IdleStream

from environments.docker.client import _Relay
from environments.loop import run
from environments.shell.host import RemoteHost


class EndedStream(IdleStream):
    """A stream whose program reads no more."""

    def write(self, data: bytes) -> None:
        raise BrokenPipeError


def test_a_client_may_hang_up_as_the_stream_ends() -> None:
    async def work(_: object) -> None:
        client, ours = socket.socketpair()
        stream = EndedStream()
        relay = _Relay(cast("RemoteHost", SimpleNamespace(place="there")), stream, ours)
        client.close()
        stream._end()
        relay._readable()
        await relay._ending
        await relay._sending
        assert ours.fileno() < 0

    run(work)
