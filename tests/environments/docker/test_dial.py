"""The relay: a pair of sockets between docker-py and a stream to the engine's host."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import cast

from environments.docker.client import _Relay
from environments.loop import run
from environments.shell.host import RemoteHost
from environments.shell.stream import Stream, Terminal


class Ended(Stream):
    """A stream to a program that ends as it is told to, with exit code 0."""

    def _begin(self) -> None:
        pass

    def write(self, data: bytes) -> None:
        raise BrokenPipeError

    def close_write(self) -> None:
        pass

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    async def resize(self, terminal: Terminal) -> None:
        pass

    async def exit_code(self, timeout: float) -> int | None:
        return 0

    async def close(self) -> None:
        self._end()


def test_a_client_may_hang_up_as_the_stream_ends() -> None:
    async def work(_: object) -> None:
        client, ours = socket.socketpair()
        stream = Ended()
        relay = _Relay(cast("RemoteHost", SimpleNamespace(place="there")), stream, ours)
        client.close()
        stream._end()
        relay._readable()
        await relay._ending
        await relay._sending
        assert ours.fileno() < 0

    run(work)
