"""A network proxy as a child of this process, with web servers behind it and clients."""

from __future__ import annotations

import contextlib
import http.server
import socket
import threading
from collections.abc import Iterator, Sequence
from ipaddress import ip_address

from environments.loop import run
from environments.network.proxy import Lookup, NetworkProxy
from environments.shell.child_stream import ChildStream
from environments.shell.stream import Stream


class LocalProxy:
    """A proxy and the recorded refusals."""

    def __init__(self, hosts: Sequence[str], lookup: Lookup | None = None) -> None:
        self.refused: list[tuple[str, int]] = []
        self.streams: list[ChildStream] = []
        more = {"lookup": lookup} if lookup else {}

        async def make(_: object) -> NetworkProxy:
            return NetworkProxy(hosts, lambda *told: self.refused.append(told), **more)

        self.proxy = run(make)

    async def _opened(self, text: str) -> Stream:
        self.streams.append(ChildStream(["/bin/sh", "-c", text]))
        return self.streams[-1]

    def start(self) -> bool:
        return run(lambda _: self.proxy.start(self._opened))

    def stop(self) -> None:
        async def stop(_: object) -> None:
            self.proxy.stop()

        run(stop)

    def set_hosts(self, *hosts: str) -> None:
        async def set_hosts(_: object) -> None:
            self.proxy.set_hosts(hosts)

        run(set_hosts)

    def connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.proxy.port), timeout=20)

    def answer(self, request: bytes) -> bytes:
        """Send bytes on a new connection, and return the whole response."""
        with self.connected() as client:
            client.sendall(request)
            return rest_of(client)

    def get(self, url: str, *headers: str) -> bytes:
        return self.answer("\r\n".join([f"GET {url} HTTP/1.1", *headers, "", ""]).encode())


def rest_of(client: socket.socket) -> bytes:
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := client.recv(65536):
            parts.append(part)
    return b"".join(parts)


def head_of(client: socket.socket) -> bytes:
    """Read up to the end of the headers, a byte at a time."""
    head = b""
    while not head.endswith(b"\r\n\r\n") and (part := client.recv(1)):
        head += part
    return head


@contextlib.contextmanager
def local_proxy(*hosts: str, lookup: Lookup | None = None) -> Iterator[LocalProxy]:
    here = LocalProxy(hosts, lookup)
    here.start()
    try:
        yield here
    finally:
        here.stop()


class NameTable:
    """Resolves names from a table. A list of addresses is used up from one lookup to the next."""

    def __init__(self, **names: str | list[str]) -> None:
        self._names = {name.replace("_", "."): where for name, where in names.items()}
        self.asked: list[str] = []

    async def __call__(self, name: str, port: int) -> list[object]:
        self.asked.append(name)
        if name not in self._names:
            raise OSError("no such name")
        where = self._names[name]
        if isinstance(where, list):
            where = where.pop(0) if len(where) > 1 else where[0]
        return [ip_address(each) for each in where.split()]


class RecordingWebServer:
    """A web server on a loopback address with a record of requests."""

    def __init__(self, address: str = "127.0.0.2") -> None:
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.files: dict[str, bytes] = {}
        """Contents by URL path. If empty, each path has a page."""
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.requests.append((self.command, self.path, dict(self.headers), body))
                status, headers, answer = outer.answer(self.path)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_POST = do_PUT = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer((address, 0), Handler)
        self.port = self._server.server_address[1]
        self.place = f"{address}:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        if path.startswith("/redirect/"):
            return 302, {"Location": f"http://{path.removeprefix('/redirect/')}"}, b""
        if self.files:
            data = self.files.get(path.partition("?")[0])
            kind = {"Content-Type": "text/html"} if path.endswith("/") else {}
            return (200, kind, data) if data is not None else (404, {}, b"")
        return 200, {}, f"this is {path}".encode()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def web(address: str = "127.0.0.2") -> Iterator[RecordingWebServer]:
    server = RecordingWebServer(address)
    try:
        yield server
    finally:
        server.close()
