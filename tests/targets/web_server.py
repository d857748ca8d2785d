"""Web servers on loopback: pages written by a test, and stand-ins of search services."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit


class Request(BaseHTTPRequestHandler):
    """A request, answered by a page."""

    server: _SiteServer
    wbufsize = 0
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        place = urlsplit(self.path)
        self.query = {name: values[0] for name, values in parse_qs(place.query).items()}
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.site.requests.append(self)
        with contextlib.suppress(OSError):  # the client may close before the end of the response
            self.server.site.pages.get(place.path, not_found)(self)

    do_POST = do_GET

    def answer(self, body: bytes | str, kind: str = "text/html", status: int = 200, **headers: str) -> None:
        data = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **headers}.items():
            if value:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def answer_json(self, value: object, status: int = 200) -> None:
        self.answer(json.dumps(value), "application/json", status)

    def redirect(self, where: str, status: int = 302) -> None:
        self.answer("", status=status, Location=where)

    def log_message(self, format: str, *args: Any) -> None:
        pass


Page = Callable[[Request], None]


def not_found(request: Request) -> None:
    request.answer("no such page", status=404)


class _SiteServer(ThreadingHTTPServer):
    site: Site
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # clients here break off connections on purpose


class Site:
    """A running server. `pages` has the pages by path, `requests` the requests so far."""

    def __init__(self, address: str, tls: ssl.SSLContext | None) -> None:
        self.pages: dict[str, Page] = {}
        self.requests: list[Request] = []
        self._server = _SiteServer((address, 0), Request)
        self._server.site = self
        self.port = self._server.server_port
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"{'https' if tls else 'http'}://{address}:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="test-site")
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def page(self, path: str, body: bytes | str, kind: str = "text/html", status: int = 200, **headers: str) -> str:
        """Add a page, and return its URL."""
        return self.on(path, lambda request: request.answer(body, kind, status, **headers))

    def on(self, path: str, page: Page) -> str:
        """Add a function that answers a path, and return its URL."""
        self.pages[path] = page
        return self.url + path


@contextlib.contextmanager
def running_site(address: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    """Run a server for the block."""
    site = Site(address, tls)
    try:
        yield site
    finally:
        site.close()


def as_searxng(site: Site, find: Callable[[str], list[tuple[str, str, str]]]) -> str:
    """Add SearXNG's search to a site, with the titles, URLs and texts that `find` returns for a query."""

    def search(request: Request) -> None:
        if request.query.get("format") != "json":
            return request.answer("<html>results for people</html>")
        found = [
            {"title": title, "url": url, "content": text, "engine": "ours", "score": 1.0, "category": "general"}
            for title, url, text in find(request.query["q"])
        ]
        return request.answer_json({"query": request.query["q"], "number_of_results": len(found), "results": found})

    site.on("/search", search)
    return site.url


def self_signed(folder: Path, name: str) -> ssl.SSLContext:
    """Write a self-signed certificate to `folder`/certificate.pem, and return a server's TLS context."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder(issuer_name=who, subject_name=who, public_key=key.public_key(), serial_number=1)
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(datetime.now(UTC) + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, private = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "certificate.pem").write_bytes(made.public_bytes(pem))
    (folder / "key.pem").write_bytes(key.private_bytes(pem, private, serialization.NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context
