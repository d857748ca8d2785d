"""A TCP proxy that adds a round-trip time at full bandwidth."""

from __future__ import annotations

import asyncio
import contextlib

PIECE = 256 * 1024


class DelayProxy:
    """Forwards connections to a local port, each piece later by half the round trip.

    Args:
        round_trip: Seconds; 0 for no proxy.
    """

    def __init__(self, round_trip: float) -> None:
        self._delay = round_trip / 2
        self._server: asyncio.Server | None = None
        self._links: set[asyncio.Task[None]] = set()

    async def front(self, port: int) -> int:
        """Start the proxy of a local port, and return the proxy's port."""
        if not self._delay:
            return port

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_connection("127.0.0.1", port)
            for source, target in ((reader, back), (there, writer)):
                task = asyncio.create_task(self._forward(source, target))
                self._links.add(task)
                task.add_done_callback(self._links.discard)

        self._server = await asyncio.start_server(connected, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _forward(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        sender = asyncio.create_task(self._send(queue, target))
        try:
            while True:
                with contextlib.suppress(ConnectionError):
                    data = await source.read(PIECE)
                queue.put_nowait((loop.time() + self._delay, data))
                if not data:
                    return
        finally:
            await sender

    @staticmethod
    async def _send(queue: asyncio.Queue[tuple[float, bytes]], target: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ConnectionError):
            while True:
                due, data = await queue.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if not data:
                    target.close()
                    return
                target.write(data)
                await target.drain()
