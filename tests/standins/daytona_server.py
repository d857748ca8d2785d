"""A stand-in for Daytona: REST interface, sandboxes' toolbox, and channel of events.

python -m standins.daytona_server [--docker IMAGE] [--round-trip-ms N]
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from aiohttp import WSMsgType, web

from standins.boxes import Boxes
from standins.control import main
from standins.daytona_sandboxes import Sandboxes, refusal
from standins.daytona_toolbox import Toolbox
from standins.delay import DelayProxy
from standins.faults import SLOW_SECONDS, Fault, Ledger

API_KEY = "dtn_standin"
LARGEST_BODY = 1 << 30

_REFUSALS = {
    Fault.UNAVAILABLE: (503, "Service Unavailable"),
    Fault.UNAUTHENTICATED: (401, "Invalid credentials"),
    Fault.RATE_LIMITED: (429, "Rate limit exceeded"),
    Fault.BAD_GATEWAY: (502, "Bad Gateway"),
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class DaytonaServer:
    """The whole service on one loopback port."""

    def __init__(self, boxes: Boxes) -> None:
        self.ledger = Ledger()
        self.sandboxes = Sandboxes(boxes)
        self.url = ""
        self.application = web.Application(client_max_size=LARGEST_BODY, middlewares=[self._answer])
        self.application.add_routes(self._routes())

    def _routes(self) -> list[web.RouteDef]:
        control, toolbox = self.sandboxes, Toolbox(self.sandboxes)
        one, inside = "/api/sandbox/{sandbox}", "/toolbox/{sandbox}"
        return [
            web.post("/api/sandbox", control.create, name="create"),
            web.get("/api/sandbox", control.list, name="list"),
            web.get(one, control.get, name="get"),
            web.delete(one, control.delete, name="delete"),
            web.get(f"{one}/toolbox-proxy-url", control.toolbox_proxy_url, name="toolbox_proxy_url"),
            web.get(f"{one}/ports/{{port}}/preview-url", control.preview_url, name="preview_url"),
            web.post(f"{one}/network-settings", control.set_network, name="set_network"),
            web.put(f"{one}/labels", control.set_labels, name="set_labels"),
            web.post(f"{one}/{{kind:auto(?:stop|archive|delete)}}/{{minutes}}", control.set_interval, name="interval"),
            web.post(f"{one}/start", control.start, name="start"),
            web.post(f"{one}/stop", control.stop, name="stop"),
            web.post(f"{one}/archive", control.archive, name="archive"),
            web.post(f"{one}/recover", control.recover, name="recover"),
            web.post(f"{one}/snapshot", control.take_snapshot, name="take_snapshot"),
            web.get("/api/snapshots", control.snapshots, name="snapshots"),
            web.get("/api/snapshots/{snapshot}", control.snapshot, name="snapshot"),
            web.delete("/api/snapshots/{snapshot}", control.remove_snapshot, name="remove_snapshot"),
            web.get("/api/socket.io/", self._events, name="events"),
            web.post(f"{inside}/process/execute", toolbox.execute, name="execute"),
            web.get(f"{inside}/process/pty/create-connect", toolbox.terminal, name="terminal"),
            web.post(f"{inside}/process/pty/{{terminal}}/resize", toolbox.resize_terminal, name="resize_terminal"),
            web.delete(f"{inside}/process/pty/{{terminal}}", toolbox.kill_terminal, name="kill_terminal"),
            web.post(f"{inside}/files/bulk-upload", toolbox.bulk_upload, name="upload"),
            web.post(f"{inside}/files/bulk-download", toolbox.bulk_download, name="download"),
        ]

    @web.middleware
    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        name = request.match_info.route.name
        if name is None:
            self.ledger.lacks(f"{request.method} {request.path}")
            raise refusal(501, f"the stand-in has no {request.method} {request.path}")
        fault = self.ledger.note(name)
        if fault in _REFUSALS:
            raise refusal(*_REFUSALS[fault])
        if name != "events" and request.headers.get("Authorization") != f"Bearer {API_KEY}":
            raise refusal(*_REFUSALS[Fault.UNAUTHENTICATED])
        if fault is Fault.SLOW:
            await asyncio.sleep(SLOW_SECONDS)
        if fault is Fault.HELD:
            await self.ledger.hold()
        if fault is Fault.SANDBOX_DIES:
            await self._die(name, request)
        answer = await handler(request)
        if fault is Fault.DROPPED and request.transport:
            request.transport.abort()
        return answer

    async def _die(self, name: str, request: web.Request) -> None:
        """End the sandbox. During `get` and `start` the sandbox breaks down, and can be recovered."""
        sandbox = self.sandboxes.find(request)
        if name in ("get", "start"):
            await self.sandboxes.break_down(sandbox)
        else:
            await self.sandboxes.destroy(sandbox)

    async def _events(self, request: web.Request) -> web.WebSocketResponse:
        """Hold a Socket.IO connection with handshake and heartbeats, and without events: the client then polls."""
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        hello = {"sid": "standin", "upgrades": [], "pingInterval": 25000, "pingTimeout": 20000, "maxPayload": 100_000}
        await socket.send_str("0" + json.dumps(hello))
        pings = asyncio.create_task(self._ping(socket))
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT and message.data.startswith("40"):
                    await socket.send_str('40{"sid":"standin"}')
        finally:
            pings.cancel()
        return socket

    @staticmethod
    async def _ping(socket: web.WebSocketResponse) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                await asyncio.sleep(25)
                await socket.send_str("2")

    @property
    def variables(self) -> Mapping[str, str]:
        return {
            "DAYTONA_API_URL": f"{self.url}/api",
            "DAYTONA_API_KEY": API_KEY,
            "DAYTONA_TARGET": "local",
            "NO_PROXY": "127.0.0.1,localhost",
        }

    async def end_sandboxes(self) -> None:
        await self.sandboxes.destroy_all()

    def seen(self) -> Mapping[str, object]:
        return {"created": self.sandboxes.created}


@contextlib.asynccontextmanager
async def serve(boxes: Boxes, proxy: DelayProxy) -> AsyncIterator[DaytonaServer]:
    """Serve within the block."""
    daytona = DaytonaServer(boxes)
    runner = web.AppRunner(daytona.application, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    daytona.url = f"http://127.0.0.1:{await proxy.front(port)}"
    daytona.sandboxes.toolbox = f"{daytona.url}/toolbox"
    try:
        yield daytona
    finally:
        await daytona.sandboxes.destroy_all()
        await runner.cleanup()


if __name__ == "__main__":
    main(serve)
